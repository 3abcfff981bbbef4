// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>
#include <utility>

#include <distdl/agent/options.hpp>
#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/app/runs/join_target.hpp>
#include <distdl/app/runs/run_report.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/version.hpp>

namespace distdl::app {
namespace {
namespace fs = std::filesystem;

constexpr Milliseconds kPause{500};  ///< between two looks for a launch

/// `words`: "job.toml", "--set", "train.epochs=2".
JobArguments arguments_from(const std::vector<std::string>& words) {
  JobArguments arguments;
  if (!words.empty()) arguments.file = words.front();
  for (std::size_t i = 2; i < words.size(); i += 2) arguments.overrides.push_back(words[i]);
  return arguments;
}

/// Whether the newest start of the run made it, as far as is known: a start that was killed leaves its launch behind.
bool is_of_newest_start(const agent::LaunchRecord& record, const fs::path& run_folder) {
  const auto journal = observe::read_journal(run_folder);
  const auto start = std::find_if(journal.rbegin(), journal.rend(),
                                  [](const observe::Record& row) { return row.event == "job_started"; });
  if (start == journal.rend()) return true;
  const auto job = slurm::allocation_in(record.variables);
  return job && job->called() == start->job && job->restart == start->restart;
}

agent::OpenLaunch wait_for_launch(const fs::path& run_folder, Milliseconds patience) {
  for (const auto limit = Deadline::after(patience);; std::this_thread::sleep_for(kPause)) {
    auto launch = agent::find_launch(run_folder);
    if (launch && is_of_newest_start(launch->record, run_folder)) return *std::move(launch);
    require<UsageError>(!limit.expired(),
                        "the run \"{}\" has no agents that could be joined: it is just starting, or it runs with "
                        "--local or run.recovery = \"relaunch\"",
                        run_folder.string());
  }
}

config::Job job_of(const agent::LaunchRecord& record) {
  require(record.version == DISTDL_VERSION, "the run was started by distdl {}, which this distdl, {}, cannot join",
          record.version, DISTDL_VERSION);
  std::error_code error;
  fs::current_path(record.folder, error);
  require(!error, "the run was started in the folder \"{}\", which cannot be entered here: {}", record.folder,
          error.message());
  const auto arguments = arguments_from(record.arguments);
  auto job = arguments.load();
  require(config::to_toml(job) == record.job,
          "the job file \"{}\" is not what it was when the run was launched; put it back, or requeue the run",
          arguments.file.string());
  return job;
}
}  // namespace

std::size_t JoinTarget::free_places() const {
  const auto nodes = static_cast<std::int64_t>(launch.record.agents.size());
  const auto wanted = agent::wanted_nodes(job.agent, nodes), present = launch.newest.members.size();
  return wanted > present ? wanted - present : 0;
}

JoinTarget find_join_target(const fs::path& run_folder, Milliseconds patience) {
  auto launch = wait_for_launch(run_folder, patience);
  auto job = job_of(launch.record);
  return {std::move(job), std::move(launch)};
}

void require_running(const fs::path& run_folder) {
  auto summary = observe::summarize_run(run_folder);
  auto jobs = ask_job_states(jobs_of_interest(summary));
  const RunReport report = make_report(run_folder, std::move(summary), std::move(jobs));
  require<UsageError>(report.state.is_live && (!report.job || is_at_work(*report.job)),
                      "the run \"{}\" is {}: only a run that is running can be joined", run_folder.string(),
                      report.state.word);
}

void require_free_place(const fs::path& run_folder, const JoinTarget& target) {
  require<UsageError>(target.free_places() > 0,
                      "the run \"{}\" already has all its nodes ({}); a larger run.most_nodes applies from its next "
                      "launch",
                      run_folder.string(), target.launch.newest.members.size());
  require<UsageError>(target.job.agent.regrow_seconds > 0,
                      "the run \"{}\" has run.regrow_seconds = 0: nodes that join would run no ranks",
                      run_folder.string());
}

}  // namespace distdl::app
