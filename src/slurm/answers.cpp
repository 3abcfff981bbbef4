// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <ctime>
#include <limits>
#include <sstream>
#include <string_view>

#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/slurm/answers.hpp>

namespace distdl::slurm {
namespace {
using Time = std::chrono::system_clock::time_point;

constexpr std::int64_t kLongestJob = 100LL * 365 * 86400;  ///< in seconds

/// Nothing if the variable is not set. Throws ConfigError unless it is a whole number of `least` or more that an int
/// can hold.
std::optional<int> count_in(const Variable& variable, const std::string& name, int least) {
  const auto text = variable(name);
  if (!text) return std::nullopt;
  const long long number = integer_in(name, *text);
  require(number >= least && number <= std::numeric_limits<int>::max(),
          "environment variable {}=\"{}\" is out of range: expected a number from {} to {}", name, *text, least,
          std::numeric_limits<int>::max());
  return static_cast<int>(number);
}

/// The word after "key=" in scontrol's one-line output.
std::optional<std::string> field(const std::string& text, const std::string& key) {
  const std::string wanted = key + "=";
  auto at = text.find(wanted);
  while (at != std::string::npos && at > 0 && text[at - 1] != ' ') at = text.find(wanted, at + 1);
  if (at == std::string::npos) return std::nullopt;
  const auto start = at + wanted.size();
  return text.substr(start, text.find_first_of(" \n", start) - start);
}

/// scontrol prints local time without a zone, "2026-03-01T12:00:00", or "Unknown".
std::optional<Time> parse_time(const std::string& text) {
  std::tm parts{};
  parts.tm_isdst = -1;
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end || *end) return std::nullopt;
  std::time_t time = std::mktime(&parts);
  return time_from(time);  // -1 is not a time: taken for one, it would end the run at its first step
}

/// The number after "node=" in "cpu=2,mem=8G,node=2,billing=2".
std::optional<int> nodes_in(const std::string& resources) {
  const auto at = ("," + resources).find(",node=");
  if (at == std::string::npos) return std::nullopt;
  const char* begin = resources.data() + at + std::string_view("node=").size();
  int count = 0;
  const auto [end, error] = std::from_chars(begin, resources.data() + resources.size(), count);
  return error == std::errc{} && count > 0 ? std::optional(count) : std::nullopt;
}
}  // namespace

std::optional<Allocation> allocation_from(const Variable& variable) {
  auto job = variable("SLURM_JOB_ID");
  if (!job) return std::nullopt;
  Allocation allocation;
  allocation.job = *std::move(job);
  // A job that a task of an array submits has these variables of that task.
  const auto array = variable("SLURM_ARRAY_JOB_ID"), task = variable("SLURM_ARRAY_TASK_ID");
  if (array == allocation.job && task) allocation.name = fmt::format("{}_{}", *array, *task);
  allocation.restart = count_in(variable, "SLURM_RESTART_COUNT", 0).value_or(0);
  allocation.node_list = variable("SLURM_JOB_NODELIST").value_or("");
  allocation.nodes = count_in(variable, "SLURM_JOB_NUM_NODES", 1).value_or(1);
  allocation.tasks = count_in(variable, "SLURM_NTASKS", 0).value_or(0);
  // With --nodes=2-3 the tasks asked for can be fewer than the nodes given: what was asked per node decides.
  if (const auto per_node = count_in(variable, "SLURM_NTASKS_PER_NODE", 0)) {
    require(*per_node <= std::numeric_limits<int>::max() / allocation.nodes,
            "environment variable SLURM_NTASKS_PER_NODE={} asks for too many tasks on {} nodes", *per_node,
            allocation.nodes);
    allocation.tasks = *per_node * allocation.nodes;
  }
  if (allocation.tasks == 0) allocation.tasks = allocation.nodes;
  allocation.cpus_per_task = count_in(variable, "SLURM_CPUS_PER_TASK", 1).value_or(1);
  allocation.gpus = variable("SLURM_GPUS").value_or("");
  return allocation;
}

std::string switches_in(const std::string& address, const std::string& pattern) {
  const auto end = address.rfind('.');
  return pattern.ends_with(".node") && end != std::string::npos ? address.substr(0, end) : "";
}

std::optional<Time> time_from(std::int64_t seconds) {
  if (seconds <= 0 || seconds >= std::time(nullptr) + kLongestJob) return std::nullopt;
  return std::chrono::system_clock::from_time_t(seconds);
}

std::optional<Time> end_in(const std::string& text) {
  const auto limit = field(text, "TimeLimit"), end = field(text, "EndTime");
  if (!end || !limit || *limit == "UNLIMITED") return std::nullopt;
  return parse_time(*end);
}

std::optional<JobRecord> record_in(const std::string& text) {
  auto state = field(text, "JobState");
  if (!state) return std::nullopt;
  JobRecord record{*std::move(state), 0};
  const auto restarts = field(text, "Restarts").value_or("0");
  std::from_chars(restarts.data(), restarts.data() + restarts.size(), record.restarts);  // else 0
  return record;
}

std::optional<int> fewest_nodes_in(const std::string& text, const std::string& job) {
  constexpr std::string_view kJob = "\"job_id\"", kResources = "\"tres_req_str\"";
  for (auto at = text.find(kJob); at != std::string::npos;) {
    const auto next = text.find(kJob, at + 1);
    const auto number = text.find_first_not_of(": ", at + kJob.size());
    const auto end = text.find_first_not_of("0123456789", number);
    if (number < end && end != std::string::npos && text.substr(number, end - number) == job) {
      const std::string record = text.substr(end, next == std::string::npos ? next : next - end);
      const auto key = record.find(kResources);
      const auto begin = key == std::string::npos ? key : record.find('"', key + kResources.size());
      const auto last = begin == std::string::npos ? begin : record.find('"', begin + 1);
      return last == std::string::npos ? std::nullopt : nodes_in(record.substr(begin + 1, last - begin - 1));
    }
    at = next;
  }
  return std::nullopt;
}

std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

}  // namespace distdl::slurm
