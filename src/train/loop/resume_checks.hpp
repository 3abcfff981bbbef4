// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <distdl/base/ids.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/train/host.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/saves/run_saves.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// Throws StorageError if a run of `most` steps of `global_batch` samples cannot have come as far in the samples as
/// `state`.
void require_possible_position(const TrainingState& state, Step most, std::int64_t global_batch);

/// Compares the loss of the first step after a restore with the loss that an earlier start recorded for this step.
class ResumedLoss {
 public:
  /// Collective, after a restore. Asks the host of rank 0 for the loss of the step after `step`.
  /// `repeats_bits`: the same job, and ranks that round as before.
  void read(const Recipe& recipe, Host& host, comm::Communicator& communicator, Step step, bool repeats_bits);
  /// Collective. Takes the loss of `step`, the first after the restore; those of later steps pass. Ends the saves and
  /// throws an Error with ExitCode::irreproducible if it has other bits than the recorded one.
  void check(Step step, double loss, Checkpointing& checkpointing);

 private:
  std::optional<double> recorded_;  ///< none: there is nothing to compare, or it is done
};

}  // namespace distdl::train
