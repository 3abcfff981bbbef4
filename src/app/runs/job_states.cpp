// SPDX-License-Identifier: Apache-2.0
#include <ctime>
#include <sstream>

#include <fmt/ranges.h>

#include <distdl/app/runs/job_states.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/slurm/commands.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kStatesLimit = 10s;
constexpr int kNoProgram = 127;
constexpr const char* kColumns = "--format=%i|%T|%r|%S|%e|%N|%A";

/// squeue prints local time without a zone, "2026-03-01T12:00:00", or "N/A".
std::optional<double> time_in(const std::string& text) {
  std::tm parts{};
  parts.tm_isdst = -1;
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end || *end) return std::nullopt;
  const std::time_t time = std::mktime(&parts);
  return time > 0 ? std::optional(static_cast<double>(time)) : std::nullopt;
}

/// As slurm::Allocation::called(): a task of an array by the number of its own job, but by "12_3" where that is the
/// array's. `shown`: "12_3"; `own`: the job's number.
std::string name_of(const std::string& shown, const std::string& own) {
  const auto task = shown.find('_');
  return task == std::string::npos || own == shown.substr(0, task) ? shown : own;
}
}  // namespace

bool is_job_id(const std::string& text) try {
  slurm::check_job_id(text);
  return true;
} catch (const SchedulerError&) {
  return false;
}

std::vector<JobState> job_states_in(const std::string& text) {
  constexpr std::size_t kFields = 7;
  std::vector<JobState> jobs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> fields;
    std::istringstream parts(line);
    for (std::string field; std::getline(parts, field, '|');) fields.push_back(field);
    if (fields.size() != kFields) continue;
    const bool has_reason = fields[2] != "None" && fields[2] != "(null)";
    jobs.push_back({name_of(fields[0], fields[6]), fields[1], has_reason ? fields[2] : "", time_in(fields[3]),
                    time_in(fields[4]), fields[5]});
  }
  return jobs;
}

std::vector<JobState> ask_job_states(std::vector<std::string> jobs) {
  std::erase_if(jobs, [](const std::string& job) { return !is_job_id(job); });  // whatever a journal says
  if (jobs.empty()) return {};
  const auto result = slurm::ask(
      {"squeue", "--noheader", "--states=all", kColumns, fmt::format("--jobs={}", fmt::join(jobs, ","))}, kStatesLimit);
  if (result.exit_code == 0) return job_states_in(result.output);
  if (result.exit_code == kNoProgram || result.errors.find("Invalid job id") != std::string::npos) return {};
  log(Severity::warning, "Slurm was not asked about the jobs: squeue {}", slurm::cause_of(result, kStatesLimit));
  return {};
}

}  // namespace distdl::app
