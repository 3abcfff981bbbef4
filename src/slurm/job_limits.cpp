// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/slurm/job_limits.hpp>
#include <distdl/slurm/warning_signal.hpp>

namespace distdl::slurm {
namespace {
constexpr const char* kEnd = "DISTDL_END_OF_JOB";
constexpr const char* kWarning = "DISTDL_WARNING_SECONDS";
constexpr const char* kPreemption = "DISTDL_PREEMPTION";
constexpr const char* kGrace = "DISTDL_GRACE_SECONDS";

/// Returns the result of `ask`; nothing, with a warning, if Slurm does not answer.
template <class Ask>
auto if_told(const char* what, Ask&& ask) -> decltype(ask()) try {
  return ask();
} catch (const SchedulerError& error) {
  log(Severity::warning, "{} is not known: {}", what, error.what());
  return {};
}

/// SBATCH_SIGNAL beats the script. Slurm does not report options given on sbatch's command line.
std::optional<Seconds> warning_of(const Allocation& allocation, Scheduler& scheduler) {
  std::optional<WarningSignal> warning;
  if (const auto variable = env("SBATCH_SIGNAL"))
    warning = warning_from(*variable);
  else if (const auto script = if_told("the job's script", [&] { return scheduler.batch_script(allocation.job); }))
    warning = warning_in(*script);
  return warning ? std::optional(warning->before) : std::nullopt;
}
}  // namespace

void set_preemption(JobLimits& limits, const std::optional<Partition>& partition, const Settings& settings,
                    bool may_requeue) {
  if (settings.preempt_type.empty() || settings.preempt_type == "preempt/none") {
    limits.preemption = PreemptMode::off;
    return;
  }
  // The mode of a QOS is in the accounting database.
  if (settings.preempt_type == "preempt/partition_prio") limits.preemption = settings.preempt_mode;
  if (settings.preempt_type == "preempt/partition_prio" && partition) limits.preemption = partition->preempt_mode;
  if (limits.preemption == PreemptMode::requeue && !may_requeue) limits.preemption = PreemptMode::cancel;
  const bool has_grace = limits.preemption == PreemptMode::cancel && partition;
  if (limits.preemption != PreemptMode::off && limits.preemption != PreemptMode::suspend)
    limits.grace = settings.kill_wait + (has_grace ? partition->grace : Seconds(0));
}

JobLimits job_limits(const Allocation& allocation, Scheduler& scheduler) {
  JobLimits limits;
  const auto record = if_told("when the job ends", [&] { return scheduler.job(allocation.called()); });
  limits.end = record && record->ends         ? record->ends
               : record && record->is_alive() ? std::nullopt
                                              : end_of_job_by_variable();
  if (!record) return limits;
  limits.warning = warning_of(allocation, scheduler);
  const auto settings = if_told("what a preemption does", [&] { return std::optional(scheduler.settings()); });
  if (!settings) return limits;
  const auto partition = if_told("the job's partition", [&] {
    return record->partition.empty() ? std::nullopt : scheduler.partition(record->partition);
  });
  set_preemption(limits, partition, *settings, record->may_requeue);
  return limits;
}

std::map<std::string, std::string> variables_of(const JobLimits& limits) {
  std::map<std::string, std::string> variables;
  if (limits.end) variables[kEnd] = std::to_string(std::chrono::system_clock::to_time_t(*limits.end));
  if (limits.warning) variables[kWarning] = std::to_string(limits.warning->count());
  if (limits.preemption != PreemptMode::unknown) variables[kPreemption] = name_of(limits.preemption);
  if (limits.grace) variables[kGrace] = std::to_string(limits.grace->count());
  return variables;
}

JobLimits limits_from(const std::function<std::optional<std::string>(const std::string& name)>& variable) {
  const auto number = [&](const char* name) {
    const auto text = variable(name);
    return text ? std::optional(integer_in(name, *text)) : std::nullopt;
  };
  JobLimits limits;
  if (const auto end = number(kEnd)) limits.end = std::chrono::system_clock::from_time_t(*end);
  if (const auto warning = number(kWarning)) limits.warning = Seconds(*warning);
  if (const auto grace = number(kGrace)) limits.grace = Seconds(*grace);
  const auto name = variable(kPreemption);
  for (const auto mode : {PreemptMode::off, PreemptMode::cancel, PreemptMode::requeue, PreemptMode::suspend})
    if (name == name_of(mode)) limits.preemption = mode;
  return limits;
}

}  // namespace distdl::slurm
