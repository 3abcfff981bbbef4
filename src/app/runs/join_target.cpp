// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

#include <distdl/agent/options.hpp>
#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/app/runs/join_target.hpp>
#include <distdl/app/runs/run_report.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/observe/journal.hpp>
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

/// The launch that goes on, according to the journal. The journal may be long, and is read again only if its size has
/// changed.
class PresentLaunch {
 public:
  explicit PresentLaunch(const fs::path& run_folder) : run_folder_(run_folder) {}
  std::optional<std::string> id() {
    std::error_code unknown;
    const auto size = fs::file_size(run_folder_ / "journal.jsonl", unknown);
    if (unknown || size == size_) return id_;
    size_ = size;
    id_ = observe::present_launch(run_folder_);
    require(id_ != "", "the run was started by an older distdl, which this one, {}, cannot join", DISTDL_VERSION);
    return id_;
  }

 private:
  const fs::path& run_folder_;
  std::uintmax_t size_ = 0;
  std::optional<std::string> id_;
};

agent::OpenLaunch wait_for_launch(const fs::path& run_folder, Milliseconds patience) {
  PresentLaunch present(run_folder);
  for (const auto limit = Deadline::after(patience);; std::this_thread::sleep_for(kPause)) {
    const auto id = present.id();
    auto launch = id ? agent::find_launch(run_folder, *id) : std::nullopt;
    if (launch) return *std::move(launch);
    require<UsageError>(!limit.expired(),
                        "the run \"{}\" has no agents that could be joined: it is just starting, or its ranks are "
                        "started without agents (--local, run.recovery = \"relaunch\")",
                        run_folder.string());
  }
}

config::Job job_of(const agent::LaunchRecord& record) {
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
                      "the run \"{}\" has run.regrow_seconds = 0, so that its ranks do not stop to take in more nodes; "
                      "a larger one applies from its next launch",
                      run_folder.string());
}

}  // namespace distdl::app
