// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/train/balance/microbatch_rule.hpp>
#include <distdl/train/engine/step_result.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/setting.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// Whether all ranks know that one of them had no memory for what they wanted, on its node or its GPU: they can go on
/// without.
bool is_lack_of_memory(const Error& error);

/// Ranks whose microbatches can move from one to another between two steps.
class MovableMicrobatches {
 public:
  virtual ~MovableMicrobatches() = default;
  /// The plan in use. With local SGD: of a group.
  virtual const parallel::MicrobatchPlan& plan() const = 0;
  /// From now on the ranks compute the microbatches of this plan, which gives the same bits.
  virtual void set_plan(const parallel::MicrobatchPlan& plan, const TrainingState& state) = 0;
  /// Collective, see parallel::GradientSum.
  virtual void allocate_spare() = 0;
  /// Whether activations are computed again.
  virtual bool recomputes() = 0;
};

/// Measures how fast the ranks are, exchanges it between two steps, and moves microbatches as LoadBalance decides. The
/// bytes of a run stay the same. Each start of a run begins with equal shares.
class Balancing {
 public:
  /// Not collective. `timeout`: longest wait for the slowest rank. The references must outlive this object.
  Balancing(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator, Clock::duration timeout,
            records::Observer& observer, kernels::Backend& backend, MovableMicrobatches& movable);

  /// Collective, after each step. `seconds`: the whole step. `is_disturbed`: this rank was suspended.
  void step_done(const TrainingState& state, const StepResult& done, double seconds, bool is_disturbed);

 private:
  /// Sums since the last exchange.
  struct Sums {
    double step_seconds = 0, compute_seconds = 0;
    std::int64_t steps = 0, microbatches = 0;
    bool is_disturbed = false;
  };
  RankTimes mine(Step step) const;
  void exchange(const TrainingState& state);
  void move(const TrainingState& state);
  /// Collective. False if a rank has no memory for plan().
  bool make_room();
  void tell(Step step, bool moved);
  /// Counts what ranks have measured while they were suspended.
  void note_disturbed(Step step);
  std::vector<std::string> hosts() const;
  bool is_news() const;

  const Setting& setting_;
  comm::Communicator& communicator_;
  Clock::duration timeout_;
  records::Observer& observer_;
  kernels::Backend& backend_;
  MovableMicrobatches& movable_;
  bool is_on_;
  std::optional<LoadBalance> balance_;
  std::vector<std::size_t> arenas_;  ///< of each rank, that are allocated
  std::vector<RankTimes> times_;     ///< of all ranks
  Sums sums_;
  std::int64_t unmeasured_;   ///< next steps that count for nothing, as after a start
  std::int64_t until_next_;   ///< steps that count, until the next exchange
  std::vector<double> told_;  ///< seconds of a microbatch that the observer knows
  Clock::time_point may_tell_{};
  std::vector<std::int64_t> disturbed_;  ///< measurements of each rank
  bool has_new_disturbed_ = false;       ///< that the observer does not know
  Clock::time_point may_tell_disturbed_{};
};

}  // namespace distdl::train
