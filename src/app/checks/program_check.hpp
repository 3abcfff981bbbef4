// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/app/checks/run_folder_check.hpp>
#include <distdl/config/job.hpp>

namespace distdl::app {

/// Checks that this machine has the program of a job, or what starts its container, and that a program of MPI is
/// started so that its ranks find each other. Throws ConfigError.
void check_program(const config::Job& job, const RankCounts& ranks);

}  // namespace distdl::app
