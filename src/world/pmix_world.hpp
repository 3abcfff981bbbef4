// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/world/world.hpp>

namespace distdl::world {

/// The world of PMIx: the processes of a step that was started by `srun --mpi=pmix` or by another launcher with PMIx.
/// Returns nothing if no PMIx server answers (PMIX_ERR_UNREACH). Throws SchedulerError for any other failure. Until
/// all_gather_strings() has returned, this process is PMIx-connected: if it dies, Slurm ends the whole step.
std::unique_ptr<World> connect_pmix_world();

}  // namespace distdl::world
