// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/app/runs/job_states.hpp>
#include <distdl/launch/folder_lock.hpp>
#include <distdl/observe/run/run_summary.hpp>

namespace distdl::app {

/// State of a run now, according to its folder and to Slurm.
struct RunState {
  std::string word;         ///< "training", "queued", "finished", "failed", "lost" ...
  std::string explanation;  ///< explanation for people; may be empty
  bool is_live = false;     ///< a job or process works on it, or waits to
};

/// `lock_age`: since the last sign of life of "distdl run"; nothing: no process holds the folder. `job`: nothing: Slurm
/// was not asked, or knows it no more.
RunState state_of(const observe::RunSummary& summary, std::optional<std::chrono::seconds> lock_age,
                  const std::optional<JobState>& job);

/// Who holds the folder, and for how long there was no sign of life. Nothing if nobody does, or a process of this
/// machine that has ended.
struct LockSeen {
  std::optional<launch::Holder> holder;
  std::chrono::seconds age{};
};
std::optional<LockSeen> look_at_lock(const std::filesystem::path& run_folder);

/// True if Slurm has given the job nodes, and not ended it.
bool is_at_work(const JobState& job);

/// Ids of the jobs that may matter now: the one that started last, and those that wait.
std::vector<std::string> jobs_of_interest(const observe::RunSummary& summary);
/// The job that matters now: one that works, else one that waits, else the one that ended last.
std::optional<JobState> current_job(const observe::RunSummary& summary, const std::vector<JobState>& jobs);

}  // namespace distdl::app
