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

/// True if the error, which all ranks got, means that one of them lacks memory on its node or its GPU. The ranks can
/// then continue without what they tried to allocate.
bool is_lack_of_memory(const Error& error);

/// Ranks whose microbatches can move from one to another between two steps.
class MovableMicrobatches {
 public:
  virtual ~MovableMicrobatches() = default;
  /// The plan in use. With local SGD: the plan of a group.
  virtual const parallel::MicrobatchPlan& plan() const = 0;
  /// From now on the ranks compute the microbatches of this plan, which gives the same bits.
  virtual void set_plan(const parallel::MicrobatchPlan& plan, const TrainingState& state) = 0;
  /// Collective, see parallel::GradientSum.
  virtual void allocate_spare() = 0;
  /// True if activations are computed again in the backward pass.
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
  std::vector<std::size_t> arenas_;  ///< for each rank: number of gradient arenas that it has allocated
  std::vector<RankTimes> times_;     ///< times of all ranks in the last exchange
  Sums sums_;
  std::int64_t unmeasured_;   ///< next steps that count for nothing, as after a start
  std::int64_t until_next_;   ///< steps that count, until the next exchange
  std::vector<double> told_;  ///< seconds of a microbatch on each rank, as last reported to the observer
  Clock::time_point may_tell_{};
  std::vector<std::int64_t> disturbed_;  ///< for each rank: number of measurements while it was suspended
  bool has_new_disturbed_ = false;       ///< true if disturbed_ has changed since it was last reported
  Clock::time_point may_tell_disturbed_{};
};

}  // namespace distdl::train
