// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/world/world.hpp>

namespace distdl::world {

/// Who connects to the PMIx server of a Slurm step as this task: this process, or a program that it starts, such as one
/// with MPI. The server takes one client a task: what it has agreed on with the first, formats of data among it, holds
/// for a second one, which may not know them (Open MPI 4.1 after another client: MPI_Init fails).
enum class StepPmix { use, leave_to_child };

/// The world in which this process was started. The sources are tried in this order:
/// 1. DISTDL_RANK, DISTDL_WORLD_SIZE, DISTDL_RENDEZVOUS (a folder) and DISTDL_LAUNCH_ID, set by distdl's own launcher;
/// 2. PMIx, in a Slurm step or under another launcher with PMIx;
/// 3. in a Slurm step without PMIx, or with one that is left to a child: `shared_folder`, if it is given;
/// 4. without a launcher: a world of one rank.
/// Throws SchedulerError in a Slurm step of several tasks if neither 2 nor 3 works, because each task would be rank 0.
/// Throws ConfigError if the variables of 1 are incomplete or invalid.
std::unique_ptr<World> make_world(const std::filesystem::path& shared_folder = {}, StepPmix pmix = StepPmix::use);

}  // namespace distdl::world
