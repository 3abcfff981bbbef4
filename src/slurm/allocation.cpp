// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/answers.hpp>
#include <distdl/slurm/nodes.hpp>
#include <distdl/slurm/plugin.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;
using Time = std::chrono::system_clock::time_point;

constexpr Milliseconds kQueryLimit = 10s, kRequeueLimit = 30s;

/// Its record in one line; nothing if there is no such job.
std::optional<std::string> show_job(const std::string& job) {
  auto result = ask({"scontrol", "show", "job", "-o", job}, kQueryLimit);
  if (result.exit_code == 0) return result.output;
  if (result.errors.find("Invalid job id") != std::string::npos) return std::nullopt;
  throw SchedulerError(
      fmt::format("cannot ask Slurm about job {}: \"scontrol show job\" {}", job, cause_of(result, kQueryLimit)));
}
}  // namespace

std::optional<Allocation> current_allocation() {
  return allocation_from(&env);
}

std::optional<Time> end_of_job_by_variable() {
  auto seconds = env_integer("SLURM_JOB_END_TIME");
  if (!seconds) return std::nullopt;
  const std::int64_t now = std::time(nullptr);
  const auto end = time_from(*seconds);
  if (end && *seconds > now) return end;
  log(Severity::warning, "SLURM_JOB_END_TIME is {}, which {}; it is ignored", *seconds,
      *seconds <= now ? "is over" : "is no time");
  return std::nullopt;
}

std::optional<Time> end_of_job(const Allocation& allocation) try {
  if (auto end = end_of_job_by_variable()) return end;
  if (auto end = plugin_end_time(allocation.job)) return end;
  auto text = show_job(allocation.called());
  if (!text) return std::nullopt;
  return end_in(*text);
} catch (const SchedulerError& error) {
  log(Severity::warning, "when the job ends is not known: {}", error.what());
  return std::nullopt;
}

std::optional<JobRecord> find_job(const std::string& job) {
  auto text = show_job(job);
  if (!text) return std::nullopt;
  auto record = record_in(*text);
  require<SchedulerError>(record.has_value(), "\"scontrol show job {}\" tells no JobState: \"{}\"", job, *text);
  return record;
}

void requeue(const Allocation& allocation) {
  auto result = ask({"scontrol", "requeue", allocation.called()}, kRequeueLimit);
  require<SchedulerError>(
      result.exit_code == 0,
      "cannot requeue job {}: scontrol {}; submit the same job again, it resumes from its last checkpoint",
      allocation.called(), cause_of(result, kRequeueLimit));
}

std::string switches_of_node() {
  return switches_in(env("SLURM_TOPOLOGY_ADDR").value_or(""), env("SLURM_TOPOLOGY_ADDR_PATTERN").value_or(""));
}

}  // namespace distdl::slurm
