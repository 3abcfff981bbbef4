// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <sys/stat.h>

#include <distdl/app/runs/run_state.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/exit_codes.hpp>
#include <distdl/base/regular_file.hpp>

namespace distdl::app {
namespace {
using observe::Phase;

bool is_over(Phase phase) {
  return phase == Phase::finished || phase == Phase::ended || phase == Phase::stopped || phase == Phase::unknown;
}

/// State of a run whose processes are gone.
RunState ended(const observe::RunSummary& summary) {
  switch (summary.phase) {
    case Phase::finished:
      return {"finished", summary.early.empty() ? "all steps are done" : "ended early: " + summary.early};
    case Phase::stopped:
      return {"stopped", "everything is saved; submit or run the same job again to go on"};
    case Phase::unknown:
      return {"new", "it has not started"};
    default:
      break;
  }
  if (summary.code == static_cast<int>(ExitCode::stopped)) return {"ended", "stopped for good, with everything saved"};
  const ExitCodeEntry* entry = summary.code ? entry_of(*summary.code) : nullptr;
  const std::string code = summary.code ? fmt::format("exit code {}", *summary.code) : "no exit code";
  return {"failed", entry ? fmt::format("{}: {}", code, entry->meaning) : code};
}

/// Slurm's words for a job that will do no more.
const char* word_of_end(const std::string& state) {
  static constexpr std::array<std::array<const char*, 2>, 9> kWords{{{"CANCELLED", "cancelled"},
                                                                     {"TIMEOUT", "timed out"},
                                                                     {"DEADLINE", "timed out"},
                                                                     {"NODE_FAIL", "failed"},
                                                                     {"FAILED", "failed"},
                                                                     {"OUT_OF_MEMORY", "failed"},
                                                                     {"BOOT_FAIL", "failed"},
                                                                     {"PREEMPTED", "cancelled"},
                                                                     {"COMPLETED", "lost"}}};
  for (const auto& [known, word] : kWords)
    if (state == known) return word;
  return nullptr;
}
}  // namespace

RunState state_of(const observe::RunSummary& summary, std::optional<std::chrono::seconds> lock_age,
                  const std::optional<JobState>& job) {
  if (summary.phase == Phase::finished || summary.phase == Phase::ended) return ended(summary);
  if (job && job->state == "PENDING")
    return {"queued", job->reason.empty() ? "" : fmt::format("Slurm's reason: {}", job->reason), true};
  if (job && job->state == "SUSPENDED") return {"suspended", "Slurm has stopped the job where it is", true};
  const char* end = job ? word_of_end(job->state) : nullptr;
  if (end) {
    if (is_over(summary.phase) && job->state != "CANCELLED") return ended(summary);
    return {end, fmt::format("Slurm: {}{}{}", job->state, job->reason.empty() ? "" : ", ", job->reason)};
  }
  if (job) return {observe::name_of(summary.phase), summary.phase == Phase::queued ? "the job is starting" : "", true};
  if (is_over(summary.phase)) return ended(summary);
  if (lock_age && *lock_age <= launch::kLongestSilence) return {observe::name_of(summary.phase), "", true};
  if (summary.phase == Phase::queued) return {"lost", "the job that was submitted is unknown to Slurm"};
  return {"lost", lock_age ? fmt::format("no sign of life for {} s", lock_age->count())
                           : "no process holds the run folder, and none has said that it ends"};
}

std::optional<LockSeen> look_at_lock(const std::filesystem::path& run_folder) try {
  constexpr std::size_t kMostLockBytes = 4096;
  const auto file = run_folder / "LOCK";
  LockSeen seen{launch::holder_from(read_regular(file, kMostLockBytes)), {}};
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return std::nullopt;
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  seen.age = std::chrono::seconds(std::max<std::int64_t>(0, now - info.st_mtim.tv_sec));
  auto self = launch::Holder::self();
  self.job.clear();  // so that Slurm is not asked
  if (seen.holder && launch::is_gone(*seen.holder, self, {})) return std::nullopt;
  return seen;
} catch (const StorageError&) {  // it has none
  return std::nullopt;
}

bool is_at_work(const JobState& job) {
  return job.state != "PENDING" && job.state != "COMPLETING" && !word_of_end(job.state);
}

std::vector<std::string> jobs_of_interest(const observe::RunSummary& summary) {
  std::vector<std::string> jobs = summary.waiting;
  if (!summary.job.empty()) jobs.insert(jobs.begin(), summary.job);
  return jobs;
}

std::optional<JobState> current_job(const observe::RunSummary& summary, const std::vector<JobState>& jobs) {
  const JobState *works = nullptr, *waits = nullptr, *over = nullptr;
  for (const std::string& id : jobs_of_interest(summary)) {
    const auto found = std::find_if(jobs.begin(), jobs.end(), [&](const JobState& each) { return each.job == id; });
    if (found == jobs.end()) continue;
    const JobState*& place = found->state == "PENDING" ? waits : word_of_end(found->state) ? over : works;
    if (!place || &place == &over) place = &*found;
  }
  const JobState* chosen = works ? works : waits ? waits : over;
  return chosen ? std::optional(*chosen) : std::nullopt;
}

}  // namespace distdl::app
