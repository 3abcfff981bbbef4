// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/slurm/allocation.hpp>

namespace distdl::app {

/// Throws UsageError if each of several tasks of a step runs `command`, which starts the tasks of the job itself, and
/// ConfigError if the job is one component of several. `command`: for the message.
void check_own_job(const slurm::Allocation& job, const char* command);

/// Warns on a node without Slurm's commands: a run that stops with work left cannot requeue the job there.
void warn_without_scontrol();

}  // namespace distdl::app
