// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace distdl {

/// Whether Slurm's commands read or write a variable of this name, as SLURM_JOB_ID and SBATCH_TIMELIMIT. sbatch hands
/// on those of the shell that submits, and Slurm replaces only some of them, so they may be another job's. That is why
/// no process inherits them (environment_with() in env.hpp): each gets those that it is meant to get, see
/// slurm/environment.hpp.
bool is_slurm_variable(std::string_view name);

/// Slurm's variables of this process, for a process of the same step, or a command of the user's own.
std::map<std::string, std::string> slurm_variables();

}  // namespace distdl
