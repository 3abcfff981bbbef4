// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace distdl::slurm {

/// The Slurm job that this process runs in.
struct Allocation {
  std::string job;           ///< job id
  std::int64_t restart = 0;  ///< how often Slurm has requeued it
  int nodes = 1;
  int tasks = 1;  ///< tasks asked for; one per node if nothing was said
  std::int64_t cpus_per_task = 1;
};

/// Nothing outside of a job. Throws ConfigError if one of Slurm's variables is not the number that it should be.
std::optional<Allocation> current_allocation();

/// The switches above this node, as far as Slurm's topology plug-in knows them ("core.leaf3"): nodes with equal ones
/// are lost together with their switch. Empty if it knows none.
std::string switches_of_node();

/// When Slurm will end the job: SLURM_JOB_END_TIME, else libslurm through its plug-in, else scontrol. Nothing if the
/// job has no limit or none of them knows.
std::optional<std::chrono::system_clock::time_point> end_of_job(const Allocation& allocation);

/// "RUNNING", "CANCELLED", "COMPLETING", ... as scontrol says; empty if it cannot be asked.
std::string job_state(const Allocation& allocation);

/// Puts the job back into the queue. Slurm then kills it, so the caller should wait to be killed.
/// Throws SchedulerError with scontrol's own words.
void requeue(const Allocation& allocation);

}  // namespace distdl::slurm
