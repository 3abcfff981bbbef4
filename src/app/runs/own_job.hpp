// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/slurm/allocation.hpp>

namespace distdl::app {

/// Throws UsageError if each of several tasks of a step runs `command`, which starts the tasks of the job itself, and
/// ConfigError if the job is one component of several. `command`: for the message.
void check_own_job(const slurm::Allocation& job, const char* command);

/// What a stop will lead to, where Slurm's commands are on login nodes only.
void warn_without_scontrol();

}  // namespace distdl::app
