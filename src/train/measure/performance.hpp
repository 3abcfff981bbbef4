// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/base/clock.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/state/state.hpp>
#include <distdl/train/step/step.hpp>

namespace distdl::train {

/// How much a run computes, and how much of the hardware it uses.
class Performance {
 public:
  /// Collective. `whole`: the model, of which the networks of `step` have a part. `peak`: of this rank, FLOPs per
  /// second; 0: not measured.
  Performance(const model::Description& whole, TrainingStep& step, const parallel::Mesh& mesh, double peak);
  const records::Compute& compute() const { return compute_; }
  /// Adds the utilization, if the peak of all ranks is known.
  void complete(records::StepDone& event) const;
  /// Whether to tell of the resources now and then, at first after the first step.
  bool is_due();

 private:
  records::Compute compute_;
  Clock::time_point next_{};
};

/// Of this rank.
records::ResourcesUsed resources_of(const TrainingState& state, TrainingStep& step,
                                    const comm::Communicator& communicator);

}  // namespace distdl::train
