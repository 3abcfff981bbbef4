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
  std::string gpus = {};  ///< GPUs of all its nodes together, "8" or "a100:8"; empty: not asked for like that
  /// Name such as "8_2" of the one task of a job array whose id is that of the array, which scontrol takes it for. Else
  /// empty.
  std::string name = {};
  std::string title = {};      ///< its name (sbatch --job-name), for people
  std::string component = {};  ///< "17+0" if it is a component of a heterogeneous job
  bool in_step = false;        ///< this process is within a step, which holds the job's processors
  int tasks_per_node = 0;      ///< most tasks of a node (sbatch --ntasks-per-node); 0: not asked for

  /// Name by which scontrol finds this job alone.
  const std::string& called() const { return name.empty() ? job : name; }
};

/// Returns the job of this process; nothing outside of one. Only the job's id is from a variable. All else is from the
/// controller's record of the job, as variables may be those of the shell that has submitted it. If Slurm does not
/// answer, the variables count, with a warning. Nothing, with a warning, if Slurm says that there is no such job any
/// more. Throws ConfigError if one of the variables that count is not the number that it should be.
std::optional<Allocation> current_allocation();

/// True if variables say that this is a job; for uses of no consequence.
bool is_in_job();

/// Returns the allocation by variables alone: for ranks and agents, which have them from their supervisor
/// (environment.hpp), and must not ask Slurm.
std::optional<Allocation> allocation_by_variables();

/// True if this is the first task of its step, or of none.
bool is_first_task();

/// "0", of the step that srun has started this process in; for a process that is known to be in one.
std::string number_of_step();

/// Name of this job's cluster; empty outside of a job. Slurm sets the variable at each start.
std::string name_of_cluster();

/// The switches above this node, if Slurm's topology plug-in lists them ("core.leaf3"): nodes with equal ones are lost
/// together with their switch. Else empty.
std::string switches_of_node();

/// Slurm's name of this node, which may lack the domain of the host's name; outside of a job the host's name.
std::string name_of_node();

/// Time at which Slurm will end the job, by SLURM_JOB_END_TIME. Nothing, with a warning, if that is over: such a value
/// is left from another job, or the limit was raised since.
std::optional<std::chrono::system_clock::time_point> end_of_job_by_variable();

}  // namespace distdl::slurm
