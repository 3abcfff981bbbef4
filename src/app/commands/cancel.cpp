// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/runs/run_jobs.hpp>
#include <distdl/app/runs/run_report.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/launch/holder_process.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/run/requests.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::app {
namespace {
struct CancelArguments {
  RunArgument run;
  bool after_save = false;
};

void request_end(const std::filesystem::path& folder) {
  observe::request_stop(folder);
  observe::Journal(folder).append(records::CancelRequested{.reason = "the file STOP"});
  fmt::print("the run saves at its next step and ends for good; follow it with: distdl log -f {}\n",
             printable(folder.string()));
}

/// Those of the jobs that are of this run, and what is wrong with the first of the others.
std::pair<std::vector<std::string>, std::optional<std::string>> jobs_of_run(const std::filesystem::path& folder,
                                                                            const std::vector<std::string>& jobs) {
  std::vector<std::string> own;
  std::optional<std::string> doubt;
  for (const std::string& job : jobs) try {
      require_job_of_run(folder, job);
      own.push_back(job);
    } catch (const StorageError& error) {
      if (!doubt) doubt = error.what();
    }
  return {own, doubt};
}

/// A forged LOCK must not keep the run's jobs from their end.
std::optional<launch::TrustedHolder> lock_beside_jobs(const std::filesystem::path& folder) try {
  return launch::trusted_holder(folder);
} catch (const StorageError& error) {
  log(Severity::warning, "{}", error.what());
  return std::nullopt;
}

void cancel(const CancelArguments& arguments) {
  const auto folder = arguments.run.find();
  auto summary = observe::summarize_run(folder);
  auto jobs = ask_job_states(jobs_of_interest(summary));
  const RunReport report = make_report(folder, std::move(summary), std::move(jobs));
  std::vector<std::string> waiting, working;
  for (const JobState& job : report.jobs)
    if (job.state == "PENDING")
      waiting.push_back(job.job);
    else if (is_at_work(job))
      working.push_back(job.job);
  const bool has_jobs = !waiting.empty() || !working.empty();
  const auto lock = has_jobs ? lock_beside_jobs(folder) : launch::trusted_holder(folder);
  const bool is_local = report.holder && lock && lock->holder.job.empty();
  require<UsageError>(is_local || has_jobs, "the run \"{}\" is {}: there is nothing to cancel", folder.string(),
                      report.state.word);
  if (arguments.after_save && (is_local || !working.empty())) {
    request_end(folder);  // its jobs that wait are cancelled when it ends
    return;
  }
  if (is_local) {
    if (!lock->is_here()) return request_end(folder);
    launch::signal_holder(folder, *lock, SIGTERM);
    fmt::print("process {} saves and stops\n", lock->holder.pid);
    return;
  }
  waiting.insert(waiting.end(), working.begin(), working.end());  // first those that would start
  const auto [own, doubt] = jobs_of_run(folder, waiting);
  for (const std::string& job : own) {
    slurm::scheduler().cancel(job);
    observe::Journal(folder).append(records::CancelRequested{job, "distdl cancel"});
  }
  if (!own.empty()) fmt::print("cancelled: {}\n", fmt::join(own, ", "));
  if (doubt) throw StorageError(*doubt);
}
}  // namespace

void add_cancel_command(Command app) {
  auto command = app.add_subcommand(
      "cancel", "End a run: cancel its jobs, those of its chain too; without Slurm ask its process to save and stop");
  auto arguments = std::make_shared<CancelArguments>();
  arguments->run.add_to(command);
  command.add_flag(
      "--after-save", arguments->after_save,
      "Let the run save at its next step and end by itself; the same as to make the file STOP in its folder");
  command.examples({{"distdl cancel 4711", "Cancel the jobs of a run"},
                    {"distdl cancel --after-save run", "Let the run save at its next step and end"}});
  command.callback([arguments] { cancel(*arguments); });
}

}  // namespace distdl::app
