// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::slurm {

/// How and when the job of a run will end, as far as its scheduler reports it.
struct JobLimits {
  std::optional<Time> end = {};         ///< end of the job; nothing: it has none, or it is not known
  std::optional<Seconds> warning = {};  ///< before the end, a signal asks to stop (--signal)
  PreemptMode preemption = PreemptMode::unknown;
  std::optional<Seconds> grace = {};  ///< from the first signal of a preemption to SIGKILL; nothing: it ends no job

  bool operator==(const JobLimits&) const = default;
};

/// Returns the limits of a job under Slurm, from its record, else SLURM_JOB_END_TIME; from its partition, the site's
/// settings, its script. Values that Slurm does not report are missing, with a warning in the log. Never throws
/// SchedulerError.
JobLimits job_limits(const Allocation& allocation, Scheduler& scheduler);

/// Sets the effect of a preemption on a job of this partition (nothing: not known), which may be requeued or not.
void set_preemption(JobLimits& limits, const std::optional<Partition>& partition, const Settings& settings,
                    bool may_requeue);

/// Returns them as variables of the ranks: DISTDL_END_OF_JOB (seconds since 1970), DISTDL_WARNING_SECONDS,
/// DISTDL_PREEMPTION ("REQUEUE"), DISTDL_GRACE_SECONDS.
std::map<std::string, std::string> variables_of(const JobLimits& limits);

/// Reads the variables that variables_of() made. Throws ConfigError if one of them is not the number that it should be.
JobLimits limits_from(const std::function<std::optional<std::string>(const std::string& name)>& variable);

}  // namespace distdl::slurm
