// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/world/world.hpp>

namespace distdl::world {

/// The world this process was started in. In this order:
/// 1. DISTDL_RANK, DISTDL_WORLD_SIZE, DISTDL_RENDEZVOUS (a folder) and DISTDL_LAUNCH_ID, set by distdl's own launcher;
/// 2. PMIx, in a Slurm step or under another launcher that serves PMIx;
/// 3. in a Slurm step without PMIx: `shared_folder`, if one is given;
/// 4. without a launcher: a world of one.
/// Throws SchedulerError in a Slurm step of several tasks where neither 2 nor 3 works, rather than start so many copies
/// of rank 0; ConfigError if the variables of 1 are incomplete or wrong.
std::unique_ptr<World> make_world(const std::filesystem::path& shared_folder = {});

}  // namespace distdl::world
