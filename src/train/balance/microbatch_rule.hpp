// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <distdl/parallel/balanced_plan.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/train/balance/move_rule.hpp>

namespace distdl::train {

/// Mean times that one rank has measured since the last exchange.
struct RankTimes {
  double microbatch_seconds = 0;  ///< forward and backward, without waiting; 0: not known
  double step_seconds = 0;        ///< a whole step; below 0: disturbed()

  /// The times of a rank that was suspended meanwhile: its measurements do not count.
  static RankTimes disturbed() { return {0, -1}; }
  bool is_disturbed() const { return step_seconds < 0; }
};

/// The rule by which microbatches move away from slow ranks, the stragglers: with the caution of MoveRule to the
/// division of parallel::balanced_plan(). All ranks give it the same times, so all ranks take the same decision.
class LoadBalance {
 public:
  /// `equal`: the plan in use. `arenas`: those that each rank may use, see parallel::arenas_for().
  LoadBalance(parallel::Options options, parallel::MicrobatchPlan equal, std::vector<std::size_t> arenas,
              const MoveRule::Limits& limits = {});

  const parallel::MicrobatchPlan& plan() const { return plan_; }
  /// `times`: one per rank. True if plan() has changed. A rank without a time makes this exchange count for nothing.
  bool take(std::span<const RankTimes> times);
  /// Restores the plan before, because a rank has no memory for the present one. `arenas`: the new limit.
  void refuse(std::vector<std::size_t> arenas);

  /// See MoveRule.
  std::int64_t steps_until_next() const { return rule_.steps_until_next(); }
  /// The medians, per rank; empty until they are known.
  const std::vector<double>& microbatch_seconds() const { return rule_.medians().unit_seconds; }
  const std::string& went_back() const { return rule_.went_back(); }

 private:
  MoveRule::Next look(std::span<const RankTimes> times);
  parallel::StepCosts costs() const;
  /// True if the shortest possible step, with work divided exactly by speed, would be a sufficient gain.
  bool may_gain(const parallel::StepCosts& costs) const;
  /// True if another plan is in use from now on.
  bool find_better();

  parallel::Options options_;
  parallel::MicrobatchPlan plan_, before_;
  std::vector<std::size_t> arenas_;
  MoveRule rule_;
};

}  // namespace distdl::train
