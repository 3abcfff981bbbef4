// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <distdl/base/clock.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/train/engine/engine.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// How much a run computes, and how much of the hardware it uses.
class Performance {
 public:
  /// Collective. `whole`: the model, of which the networks of `engine` have a part. `peak`: FLOPs per second of this
  /// rank; 0: not measured.
  Performance(const model::Description& whole, Engine& engine, const parallel::Mesh& mesh, double peak);
  const records::Compute& compute() const { return compute_; }
  /// Adds the utilization, if the peak of all ranks is known.
  void complete(records::StepDone& event) const;
  /// True if the resources are to be reported: at the first call, and then every 10 minutes.
  bool is_due();

 private:
  records::Compute compute_;
  Clock::time_point next_{};
};

/// The product of ranks as a forecast calls it: one replica has the whole state, whatever the strategy.
std::string trained_product(const parallel::Options& options, const parallel::Degrees& degrees,
                            model::Network::Activations activations);

/// Resources that this rank uses.
records::ResourcesUsed resources_of(const TrainingState& state, Engine& engine, const comm::Communicator& communicator);

}  // namespace distdl::train
