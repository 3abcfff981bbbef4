// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <thread>
#include <utility>

#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/own_step.hpp>
#include <distdl/slurm/queries/answers.hpp>
#include <distdl/slurm/queries/variables.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::slurm {

namespace {
/// Slurm's answer about the job that the variables name.
struct OwnJob {
  bool is_told = true;  ///< Slurm answered
  std::optional<JobRecord> record = {};
};

/// Asks twice: variables of another job could make a run train on other ranks.
std::optional<JobRecord> ask_again(const std::string& called) {
  constexpr Milliseconds kPause{1000};
  try {
    return scheduler().job(called);
  } catch (const SchedulerError& error) {
    if (!has_scontrol()) throw;
    log(Severity::debug, "{}; asking again", error.what());
    std::this_thread::sleep_for(kPause);
  }
  return scheduler().job(called);
}

OwnJob ask_for_own_job(const std::string& job, const std::string& called) try {
  auto record = ask_again(called);
  if (!record && called != job) record = scheduler().job(job);  // the variables of an array are another job's
  if (record && record->id != job) record.reset();              // a record of another task of an array
  return {true, std::move(record)};
} catch (const SchedulerError& error) {
  static std::once_flag told;
  std::call_once(told, [&] {
    log(Severity::warning,
        "{}; nodes, tasks, processors and restarts of job {} are taken from variables, which may be another job's",
        error.what(), job);
  });
  return {false, {}};
}
}  // namespace

std::optional<Allocation> current_allocation() {
  const auto job = env("SLURM_JOB_ID");
  if (!job) return std::nullopt;
  const auto [is_told, record] = ask_for_own_job(*job, *job_called_by(&env));
  if (is_told && (!record || record->is_inactive())) {
    log(Severity::warning, "SLURM_JOB_ID={} is ignored: Slurm {}", *job,
        record ? "says that this job is " + record->state : "knows no such job");
    return std::nullopt;
  }
  auto allocation = record ? std::optional(allocation_of(*record, &env)) : allocation_by_variables();
  allocation->in_step = own_step().has_value();
  return allocation;
}

bool is_in_job() {
  return env("SLURM_JOB_ID").has_value();
}

std::optional<Allocation> allocation_by_variables() {
  return allocation_from(&env);
}

std::optional<std::chrono::system_clock::time_point> end_of_job_by_variable() {
  auto seconds = env_integer("SLURM_JOB_END_TIME");
  if (!seconds) return std::nullopt;
  const std::int64_t now = whole_seconds_since_1970();
  const auto end = time_from(*seconds);
  if (end && *seconds > now) return end;
  log(Severity::warning, "SLURM_JOB_END_TIME is {}, which {}; it is ignored", *seconds,
      *seconds <= now ? "is over" : "is no time");
  return std::nullopt;
}

bool is_first_task() {
  return env_integer("SLURM_PROCID").value_or(0) == 0;
}

std::string number_of_step() {
  return env("SLURM_STEP_ID").value_or("0");
}

std::string name_of_cluster() {
  return env("SLURM_CLUSTER_NAME").value_or("");
}

std::string switches_of_node() {
  return switches_in(env("SLURM_TOPOLOGY_ADDR").value_or(""), env("SLURM_TOPOLOGY_ADDR_PATTERN").value_or(""));
}

std::string name_of_node() {
  const auto name = env("SLURMD_NODENAME");
  const bool is_name = name && !name->empty() && name->find('/') == std::string::npos;  // files are named after it
  return is_name ? *name : host_name();
}

}  // namespace distdl::slurm
