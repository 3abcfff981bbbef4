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

/// The place and the time limits of a run.
struct Setting {
  std::filesystem::path checkpoints;  ///< folder of the run's checkpoints, visible to all ranks
  checkpoint::Owner owner;            ///< the same on all ranks
  std::optional<std::chrono::system_clock::time_point> end_of_job;
  checkpoint::FailureRecord failures{};  ///< of the run so far; only that of rank 0 is used
  /// Called between steps on every rank. If it returns a reason, all ranks save at the same step and stop.
  std::function<std::optional<std::string>()> stop_requested = {};
  /// The failure domain of the node, for checkpoint.failure_domain = "switch".
  std::string failure_domain = {};
  checkpoint::SnapshotUse snapshots = checkpoint::SnapshotUse::newest;  ///< where to resume from
  std::optional<Step> resume_below = {};  ///< resume from an earlier step than this, unless there is no such checkpoint
  /// For tests: the file system of the checkpoints and the local disks. It must outlive the run. Null: that of the
  /// operating system.
  checkpoint::FileSystem* files = nullptr;
};

enum class Outcome {
  finished,  ///< all steps are done, and the final checkpoint is written
  stopped,   ///< saved; the next start continues
};

/// Collective over the communicator's ranks. Resumes from the newest snapshot or valid checkpoint, or starts a new run.
/// Trains to the end, or until any rank is asked to stop. Failed saves are logged and reported to the observer, and the
/// run continues; only the last save must succeed. The result depends only on the recipe, not on the number of ranks or
/// interruptions. Throws Error on all ranks, with the code of the cause: bad input, a missing data set or checkpoint,
/// another run that took the checkpoint folder; comm::PeerLost.
Outcome run(const Recipe& recipe, const Setting& setting, comm::Communicator& communicator, Observer& observer);

}  // namespace distdl::train
