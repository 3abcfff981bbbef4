// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/queries/answers.hpp>
#include <distdl/slurm/queries/libslurm.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::slurm {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kActionLimit = 30s, kSubmitLimit = 60s;

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
