// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/plugin.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;
using Time = std::chrono::system_clock::time_point;

/// The word after "key=" in scontrol's one-line output.
std::optional<std::string> field(const std::string& text, const std::string& key) {
  auto at = (" " + text).find(" " + key + "=");
  if (at == std::string::npos) return std::nullopt;
  auto start = at + key.size() + 1;
  return text.substr(start, text.find_first_of(" \n", start) - start);
}

std::optional<std::string> show_job(const Allocation& allocation) {
  auto result = run_command({"scontrol", "show", "job", "-o", allocation.job}, 10s);
  if (result.exit_code == 0) return result.output;
  log(Severity::warning, "scontrol show job {} failed: {}", allocation.job, result.errors);
  return std::nullopt;
}

/// scontrol prints local time without a zone, "2026-03-01T12:00:00", or "Unknown".
std::optional<Time> parse_time(const std::string& text) {
  std::tm parts{};
  parts.tm_isdst = -1;
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end || *end) return std::nullopt;
  std::time_t time = std::mktime(&parts);
  if (time == -1) return std::nullopt;  // not a time: taken for one, it would end the run at its first step
  return std::chrono::system_clock::from_time_t(time);
}
}  // namespace

std::optional<Allocation> current_allocation() {
  auto job = env("SLURM_JOB_ID");
  if (!job) return std::nullopt;
  Allocation allocation;
  allocation.job = *job;
  allocation.restart = env_integer("SLURM_RESTART_COUNT").value_or(0);
  allocation.nodes = static_cast<int>(env_integer("SLURM_JOB_NUM_NODES").value_or(1));
  allocation.tasks = static_cast<int>(env_integer("SLURM_NTASKS").value_or(0));
  auto per_node = env_integer("SLURM_NTASKS_PER_NODE");
  // With --nodes=2-3 the tasks asked for can be fewer than the nodes given: what was asked per node decides.
  if (per_node) allocation.tasks = static_cast<int>(*per_node) * allocation.nodes;
  if (allocation.tasks == 0) allocation.tasks = allocation.nodes;
  allocation.cpus_per_task = env_integer("SLURM_CPUS_PER_TASK").value_or(1);
  return allocation;
}

std::optional<Time> end_of_job(const Allocation& allocation) {
  if (auto end = env_integer("SLURM_JOB_END_TIME")) return std::chrono::system_clock::from_time_t(*end);
  if (auto end = plugin_end_time(allocation.job)) return end;
  auto text = show_job(allocation);
  if (!text) return std::nullopt;
  auto limit = field(*text, "TimeLimit");
  auto end = field(*text, "EndTime");
  if (!end || !limit || *limit == "UNLIMITED") return std::nullopt;
  return parse_time(*end);
}

std::string job_state(const Allocation& allocation) {
  auto text = show_job(allocation);
  return text ? field(*text, "JobState").value_or("") : "";
}

void requeue(const Allocation& allocation) {
  auto result = run_command({"scontrol", "requeue", allocation.job}, 30s);
  require<SchedulerError>(
      result.exit_code == 0,
      "cannot requeue job {}: scontrol says \"{}\"; submit the same job again, it resumes from its last "
      "checkpoint",
      allocation.job, result.errors.empty() ? result.output : result.errors);
}

// "core.leaf3.n17" and "switch.switch.node"; without a topology "n17" and "node".
std::string switches_of_node() {
  const auto address = env("SLURM_TOPOLOGY_ADDR").value_or("");
  const auto pattern = env("SLURM_TOPOLOGY_ADDR_PATTERN").value_or("");
  const auto end = address.rfind('.');
  return pattern.ends_with(".node") && end != address.npos ? address.substr(0, end) : "";
}

}  // namespace distdl::slurm
