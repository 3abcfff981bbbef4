// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <distdl/slurm/allocation.hpp>

// The variables of Slurm that distdl takes over, and those that it hands on. No process inherits them (base/env.hpp):
// the question of a command of Slurm, and its answer, depend on its arguments and on the variables of these tables
// alone.
namespace distdl::slurm {

/// Variables for each command of Slurm: where Slurm is, and who asks (SLURM_CONF, SLURM_CLUSTERS, SLURM_JWT). Within a
/// job without SLURM_CLUSTERS, since the job is of the cluster that its nodes have in their configuration.
std::map<std::string, std::string> variables_for_commands();

/// Variables for srun within a job: those, and properties of the job's own record for which its tasks cannot ask.
std::map<std::string, std::string> variables_for_step(const Allocation& job);

/// Variables by which a rank finds its job, with the values that this process has from its supervisor; empty where one
/// is not set.
std::map<std::string, std::string> variables_of_job();

/// Place of a program that runs as a rank of a step whose tasks are not the ranks.
struct RankPlace {
  int rank = 0, ranks = 1;
  int local_rank = 0, local_ranks = 1;  ///< on the node
  int node = 0, nodes = 1;
};
/// Slurm's variables of this process for such a program, with its own place instead of that of the task. Empty outside
/// a job.
std::map<std::string, std::string> variables_of_rank(const RankPlace& place);

/// A wish of a site or a user for all jobs, which sbatch takes from a variable.
struct SiteOption {
  const char* variable;
  const char* option;  ///< option of sbatch, without "--"
  const char* letter;  ///< "-A"
};
/// Returns all variables that "distdl submit" takes over. A variable may choose where and for whom a job runs. The job
/// itself is chosen by its command line, job file and script alone.
const std::vector<SiteOption>& site_options();

/// The options, and their values, that the environment wishes for a new job, without those for which `is_given` is
/// true. Logs each of them, and, once in a process, the variables of sbatch that do not count.
std::map<std::string, std::string> wished_by_site(const std::function<bool(const SiteOption&)>& is_given);

}  // namespace distdl::slurm
