// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <distdl/checkpoint/file_system.hpp>
#include <distdl/checkpoint/interval.hpp>
#include <distdl/checkpoint/saver.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/train/events.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/state.hpp>

namespace distdl::train {

/// Where the run is executed, and until when.
struct Setting {
  std::filesystem::path checkpoints;  ///< the folder of the run's checkpoints, seen by all ranks
  checkpoint::Owner owner;            ///< the same on all ranks
  std::optional<std::chrono::system_clock::time_point> end_of_job;
  checkpoint::FailureRecord failures{};  ///< of the run so far; rank 0's counts
  /// Asked between steps on every rank; a reason makes all ranks save at the same step and stop.
  std::function<std::optional<std::string>()> stop_requested = {};
  /// Asked between steps on rank 0: whether to make a checkpoint after the next step, besides those that are due.
  std::function<bool()> save_requested = {};
  /// The node's, if nodes of one domain may be lost together: for checkpoint.failure_domain = "switch".
  std::string failure_domain = {};
  checkpoint::SnapshotUse snapshots = checkpoint::SnapshotUse::newest;  ///< where to resume from
  std::optional<Step> resume_below = {};  ///< from a smaller step than this, unless there is no such checkpoint
  /// Under the checkpoints and the local disks, for tests; must outlive the run. Nothing: the operating system's.
  checkpoint::FileSystem* files = nullptr;
};

enum class Outcome {
  finished,  ///< all steps done, final checkpoint written
  stopped,   ///< saved; start again to go on
};

/// Collective over the communicator's ranks. Resumes from the newest snapshot or valid checkpoint, or starts anew.
/// Trains to the end, or until any rank is asked to stop. Failed saves are logged and reported to the observer, and the
/// run continues; only the last save must succeed. The result depends on the recipe only, not on the number of ranks or
/// interruptions. Throws Error on all ranks, with the code of the cause: bad input, a missing data set or checkpoint,
/// another run that took the checkpoint folder; comm::PeerLost.
Outcome run(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator, Observer& observer);

}  // namespace distdl::train
