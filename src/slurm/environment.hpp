// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <distdl/slurm/allocation.hpp>

// What distdl takes over of Slurm's variables, and what it hands on. No process inherits them (base/env.hpp): what a
// command of Slurm asks, and how it answers, depends on its arguments and on the variables of these tables alone.
namespace distdl::slurm {

/// For each command of Slurm: where Slurm is, and who asks (SLURM_CONF, SLURM_CLUSTERS, SLURM_JWT). Within a job
/// without SLURM_CLUSTERS, since the job is of the cluster that its nodes know.
std::map<std::string, std::string> variables_for_commands();

/// For srun within a job: those, and what its tasks cannot ask for, of the job's own record.
std::map<std::string, std::string> variables_for_step(const Allocation& job);

/// What tells a rank of its job: as this process has it from its supervisor, empty where it is not set.
std::map<std::string, std::string> variables_of_job();

/// A wish of a site or a user for all jobs, which sbatch takes from a variable.
struct SiteOption {
  const char* variable;
  const char* option;  ///< of sbatch, without "--"
  const char* letter;  ///< "-A"
};
/// All that "distdl submit" takes over. Where and for whom a job runs may be wished so; what it is, its command line,
/// job file and script say alone.
const std::vector<SiteOption>& site_options();

/// The options, and their values, that the environment wishes for a new job, without those for which `is_given` is
/// true. Logs each of them, and, once in a process, the variables of sbatch that do not count.
std::map<std::string, std::string> wished_by_site(const std::function<bool(const SiteOption&)>& is_given);

}  // namespace distdl::slurm
