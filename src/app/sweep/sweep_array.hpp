// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/app/sweep/sweep_plan.hpp>

namespace distdl::app {

/// The batch script of a job array of Slurm: each task is one of `runs`, as "distdl submit" would submit it, and
/// Sweep::at_once of them run at a time. The tables [slurm] and [run] of the job file hold for each. Throws
/// ConfigError, UsageError.
std::string array_script(const Sweep& sweep, const std::vector<std::size_t>& runs, const std::string& made_by);

}  // namespace distdl::app
