// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/parallel/balanced_plan.hpp>
#include <distdl/parallel/plan.hpp>

namespace distdl::train {

/// What one rank has measured since the last exchange, as means.
struct RankTimes {
  double microbatch_seconds = 0;  ///< forward and backward, without waiting; 0: not known
  double step_seconds = 0;        ///< a whole step; below 0: disturbed()

  /// The rank was suspended meanwhile: what it has measured counts for nothing.
  static RankTimes disturbed() { return {0, -1}; }
  bool is_disturbed() const { return step_seconds < 0; }
};

/// The constants of LoadBalance; bench/balance_rules compares others.
struct BalanceRule {
  std::size_t window = 3;      ///< exchanges whose median counts, at least 2
  double least_gain = 1.1;     ///< of a step's time, for which microbatches move
  int confirmations = 2;       ///< exchanges in a row that must promise it
  std::int64_t fruitless = 8;  ///< exchanges after a search that has found no better plan
};

/// The rule by which microbatches move away from slow ranks, the stragglers. All ranks give it the same times, and it
/// depends on nothing else, so all ranks take the same decision.
///
/// A rank counts by its median of the last three exchanges. The microbatches are divided anew if the predicted step is
/// at least a tenth shorter, twice in a row. Predictions may be wrong: a rank that shares its processors is quick while
/// it has little to do. So the next steps are a trial. If they are slower than those before, the old division comes
/// back, and the rule waits before the next move, each time longer.
class LoadBalance {
 public:
  /// `equal`: the plan in use. `arenas`: those that each rank may use, see parallel::arenas_for().
  LoadBalance(parallel::Options options, parallel::MicrobatchPlan equal, std::vector<std::size_t> arenas,
              const BalanceRule& rule = {});

  const parallel::MicrobatchPlan& plan() const { return plan_; }
  /// `times`: one per rank. True if plan() has changed. A rank without a time makes this exchange count for nothing.
  bool take(std::span<const RankTimes> times);
  /// The plan cannot be used, because a rank has no memory for it. Back to the one before; `arenas` is the new limit.
  void refuse(std::vector<std::size_t> arenas);

  /// Steps until the next exchange: about a second, and not fewer than kLeastSteps.
  std::int64_t steps_until_next() const { return steps_until_next_; }
  /// The medians, per rank; empty until they are known.
  const std::vector<double>& microbatch_seconds() const { return costs_.microbatch_seconds; }
  /// Of the last take(): why the plan before is in use again, in words; empty: it is not.
  const std::string& went_back() const { return went_back_; }
  /// Of the last change: how many times shorter steps were to become.
  double expected_gain() const { return expected_gain_; }

  static constexpr std::int64_t kLeastSteps = 4;

 private:
  struct Exchange {
    std::vector<RankTimes> times;
    double step_seconds = 0;   ///< of the slowest rank
    double other_seconds = 0;  ///< of a step, besides waiting and microbatches
  };

  void remember(std::span<const RankTimes> times);
  bool is_full() const { return exchanges_ >= window_.size(); }
  /// Of value(exchange), over a full window.
  template <class Value>
  double median_of(Value&& value) const;
  void find_medians();
  /// No plan can promise more.
  bool may_gain() const;
  std::optional<parallel::MicrobatchPlan> better_plan();
  void change_to(parallel::MicrobatchPlan plan);
  /// True if the trial has failed, and the plan before is in use again.
  bool judge_trial();

  BalanceRule rule_;
  parallel::Options options_;
  parallel::MicrobatchPlan plan_, before_;
  std::vector<std::size_t> arenas_;
  std::vector<Exchange> window_;  ///< the last ones, under plan_
  std::size_t exchanges_ = 0;     ///< under plan_
  parallel::StepCosts costs_;
  int confirmed_ = 0;                      ///< exchanges in a row that promise enough
  std::optional<double> seconds_to_beat_;  ///< of a step before the change that is on trial
  std::int64_t wait_ = 0, next_wait_ = 4;  ///< exchanges without a change
  std::int64_t steps_until_next_ = kLeastSteps;
  double expected_gain_ = 1;
  std::string went_back_;
};

}  // namespace distdl::train
