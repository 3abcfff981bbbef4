// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/environment.hpp>
#include <distdl/slurm/queries/answers.hpp>
#include <distdl/slurm/queries/libslurm.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kActionLimit = 30s, kSubmitLimit = 60s;

/// Whether the submission itself says it: in an option of its own, or a line "#SBATCH --account=x".
bool says_itself(const SiteOption& wanted, const Submission& submission) {
  const auto begins = [&](std::string_view word) {
    const bool is_short = wanted.letter[0] != '\0' && word.starts_with(wanted.letter);
    return is_short || word.starts_with(fmt::format("--{}", wanted.option));
  };
  if (std::ranges::any_of(submission.options, begins)) return true;
  std::istringstream lines(submission.script);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kDirective = "#SBATCH";
    if (!line.starts_with(kDirective)) continue;
    for (const auto& word : words_in(line.substr(kDirective.size())))
      if (begins(word)) return true;
  }
  return false;
}

void check_partition_name(const std::string& name) {
  require<SchedulerError>(!name.empty() && name[0] != '-' && name.find_first_of(", \t\n=") == std::string::npos,
                          "\"{}\" is no name of one partition", name);
}
}  // namespace

Scheduler::Scheduler() : Scheduler(best_queries()) {}

Scheduler::Scheduler(std::unique_ptr<Queries> queries, std::function<Clock::time_point()> now)
    : queries_(std::move(queries)), now_(std::move(now)) {}

template <class Answer, class Ask>
Answer Scheduler::ask(std::map<std::string, Kept<Answer>>& kept, const std::string& name, Freshness freshness,
                      Ask&& ask) {
  const std::lock_guard lock(mutex_);
  if (freshness == Freshness::cached)
    if (const auto found = kept.find(name); found != kept.end() && now_() - found->second.at < kPeriod)
      return found->second.answer;
  auto answer = std::forward<Ask>(ask)();
  kept.insert_or_assign(name, Kept<Answer>{answer, now_()});
  return answer;
}

std::optional<JobRecord> Scheduler::job(const std::string& id, Freshness freshness) {
  check_job_id(id);
  return ask(jobs_, id, freshness, [&] { return queries_->job(id); });
}

std::optional<Partition> Scheduler::partition(const std::string& name) {
  check_partition_name(name);
  return ask(partitions_, name, Freshness::cached, [&] { return queries_->partition(name); });
}

Settings Scheduler::settings() {
  return ask(settings_, "", Freshness::cached, [&] { return queries_->settings(); });
}

std::optional<std::string> Scheduler::batch_script(const std::string& id) {
  check_job_id(id);
  return ask(scripts_, id, Freshness::cached, [&] { return queries_->batch_script(id); });
}

void Scheduler::requeue(const std::string& id) {
  check_job_id(id);
  const auto result = slurm::ask({"scontrol", "requeue", id}, kActionLimit);
  require<SchedulerError>(
      result.exit_code == 0,
      "cannot requeue job {}: scontrol {}; submit the same job again, it resumes from its last checkpoint", id,
      cause_of(result, kActionLimit));
  forget(id);
}

void Scheduler::cancel(const std::string& id) {
  check_job_id(id);
  const auto result = slurm::ask({"scancel", id}, kActionLimit);
  require<SchedulerError>(result.exit_code == 0, "cannot cancel job {}: scancel {}", id,
                          cause_of(result, kActionLimit));
  forget(id);
}

void Scheduler::exclude_nodes(const std::string& id, const std::vector<std::string>& nodes) {
  check_job_id(id);
  const auto list = fmt::format("{}", fmt::join(nodes, ","));
  const auto result = slurm::ask({"scontrol", "update", "JobId=" + id, "ExcNodeList=" + list}, kActionLimit);
  require<SchedulerError>(result.exit_code == 0, "cannot exclude {} from job {}: scontrol {}", list, id,
                          cause_of(result, kActionLimit));
  forget(id);
}

// NOLINTNEXTLINE(readability-convert-member-functions-to-static): one way to Slurm, as for the other actions
std::string Scheduler::submit(const Submission& submission) {
  std::vector<std::string> command{"sbatch", "--parsable"};
  if (!submission.folder.empty()) command.push_back("--chdir=" + submission.folder.string());
  for (const auto& [option, value] : wished_by_site([&](const auto& each) { return says_itself(each, submission); }))
    command.push_back(fmt::format("--{}={}", option, value));
  command.insert(command.end(), submission.options.begin(), submission.options.end());
  const auto result = slurm::ask(command, kSubmitLimit, {}, submission.script);
  require<SchedulerError>(result.exit_code == 0, "cannot submit the job: sbatch {}", cause_of(result, kSubmitLimit));
  // "17", or "17;cluster"; a site's plug-in may have printed more above.
  const auto words = words_in(result.output);
  std::string id = words.empty() ? "" : words.back().substr(0, words.back().find(';'));
  check_job_id(id);
  return id;
}

void Scheduler::forget(const std::string& id) {
  const std::lock_guard lock(mutex_);
  jobs_.erase(id);
}

void Scheduler::forget() {
  const std::lock_guard lock(mutex_);
  jobs_.clear();
  partitions_.clear();
  scripts_.clear();
  settings_.clear();
}

Scheduler& scheduler() {
  static Scheduler one;
  return one;
}

}  // namespace distdl::slurm
