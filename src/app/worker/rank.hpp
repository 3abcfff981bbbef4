// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <distdl/app/worker/signals.hpp>
#include <distdl/base/ids.hpp>
#include <distdl/config/job.hpp>
#include <distdl/train/run.hpp>
#include <distdl/world/world.hpp>

namespace distdl::app {

/// The options by which a rank chooses where to resume from.
struct Resume {
  bool no_snapshots = false;
  std::optional<std::int64_t> below;  ///< step
};

/// Starts the log of this rank's node. Rank 0 logs on the console, too. Throws StorageError.
void start_worker_log(const config::Job& job, Rank rank);

/// Collective. Connects the ranks of `world` and trains. Throws what ends the run, after the other ranks were told;
/// Ended with ExitCode::requeue if ranks were asked to stop while they were starting.
train::Outcome run_connected(const config::Job& job, const Resume& resume, world::World& world, WorkerSignals& signals);

}  // namespace distdl::app
