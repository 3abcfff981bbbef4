// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/app/worker/signals.hpp>
#include <distdl/config/job.hpp>
#include <distdl/world/world.hpp>

namespace distdl::app {

/// Collective. Connects the ranks of `world`, and runs the program of the job (run.command) as this rank: its output,
/// its progress, the stop on which all ranks agree, its end. Rank 0 keeps the records of the run. Returns the rank's
/// exit code. Throws what ends the run, after the program was ended and the other ranks were told.
int run_program(const config::Job& job, world::World& world, WorkerSignals& signals);

}  // namespace distdl::app
