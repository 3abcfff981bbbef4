// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/agent/processes.hpp>
#include <distdl/app/runs/run_records.hpp>
#include <distdl/config/job.hpp>
#include <distdl/launch/supervisor.hpp>

namespace distdl::app {

/// Checks the nodes of the job by one task on each (commands/preflight.cpp), twice if something is wrong, and leaves
/// bad ones out of `spec`: spares first, then as many as the job can do without. Nodes that do not report at all, as
/// where srun fails, are no finding. What is left out is noted for later starts, and nodes that an earlier start has
/// noted are left out unchecked (run.bad_node_hours).
///
/// Nodes that Slurm has taken out of the job since it began are left out first, even without a pre-flight. If too few
/// are left, the job is requeued and false returned.
///
/// If a wrong node cannot be left out, the job is requeued on others, once, and false returned. Throws SchedulerError
/// where that is not possible. Does nothing else if run.preflight does not ask for it.
bool check_nodes(launch::LaunchSpec& spec, const config::Job& job, agent::SupervisorSignals& signals,
                 RunRecords& records);

}  // namespace distdl::app
