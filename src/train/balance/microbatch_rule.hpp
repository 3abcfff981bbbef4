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

/// What one rank has measured since the last exchange, as means.
struct RankTimes {
  double microbatch_seconds = 0;  ///< forward and backward, without waiting; 0: not known
  double step_seconds = 0;        ///< a whole step; below 0: disturbed()

  /// The rank was suspended meanwhile: what it has measured counts for nothing.
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
  /// The plan cannot be used, because a rank has no memory for it. Back to the one before; `arenas` is the new limit.
  void refuse(std::vector<std::size_t> arenas);

  /// See MoveRule.
  std::int64_t steps_until_next() const { return rule_.steps_until_next(); }
  /// The medians, per rank; empty until they are known.
  const std::vector<double>& microbatch_seconds() const { return rule_.medians().unit_seconds; }
  const std::string& went_back() const { return rule_.went_back(); }

 private:
  MoveRule::Next look(std::span<const RankTimes> times);
  parallel::StepCosts costs() const;
  /// No plan can promise more.
  bool may_gain(const parallel::StepCosts& costs) const;
  /// Whether another plan is in use.
  bool find_better();

  parallel::Options options_;
  parallel::MicrobatchPlan plan_, before_;
  std::vector<std::size_t> arenas_;
  MoveRule rule_;
};

}  // namespace distdl::train
