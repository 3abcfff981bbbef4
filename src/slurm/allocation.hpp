// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distdl::slurm {

/// The Slurm job that this process runs in.
struct Allocation {
  std::string job;           ///< job id
  std::int64_t restart = 0;  ///< how often Slurm has requeued it
  int nodes = 1;
  int tasks = 1;  ///< tasks asked for; one per node if nothing was said
  std::int64_t cpus_per_task = 1;
  std::string node_list = {};          ///< "n[1-3]", of all its nodes
  std::vector<std::string> only = {};  ///< launch on these of its nodes; empty: on all
  std::string gpus = {};               ///< of all its nodes together, "8" or "a100:8"; empty: not asked for like that
  /// "8_2" of the one task of a job array whose id is that of the array, which scontrol takes it for. Else empty.
  std::string name = {};

  /// What scontrol calls this job alone.
  const std::string& called() const { return name.empty() ? job : name; }
};

/// Nothing outside of a job. Throws ConfigError if one of Slurm's variables is not the number that it should be.
std::optional<Allocation> current_allocation();

/// The switches above this node, as far as Slurm's topology plug-in knows them ("core.leaf3"): nodes with equal ones
/// are lost together with their switch. Empty if it knows none.
std::string switches_of_node();

/// What Slurm calls this node, which may lack the domain of the host's name; outside of a job the host's name.
std::string name_of_node();

/// When Slurm will end the job, by SLURM_JOB_END_TIME. Nothing, with a warning, if that is over: such a value is left
/// from another job, or the limit was raised since.
std::optional<std::chrono::system_clock::time_point> end_of_job_by_variable();

}  // namespace distdl::slurm
