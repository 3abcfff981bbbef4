// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/runs/run_jobs.hpp>
#include <distdl/app/runs/run_report.hpp>
#include <distdl/app/runs/submission.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/scheduler.hpp>
#include <distdl/submit/script_file.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kSignalLimit = 10s;

struct RequeueArguments {
  RunArgument run;
  bool now = false;
};

/// As Slurm does before the time limit: the run saves, and requeues its job itself.
void warn_job(const std::string& job) {
  slurm::check_job_id(job);
  const auto result = slurm::ask({"scancel", "--batch", "--signal=USR1", job}, kSignalLimit);
  require<SchedulerError>(result.exit_code == 0, "cannot signal job {}: scancel {}", job,
                          slurm::cause_of(result, kSignalLimit));
}

/// The script of the last submission, again.
void submit_again(const std::filesystem::path& folder, const std::string& state) {
  const auto script = folder / submit::kScriptName;
  std::error_code error;
  if (!std::filesystem::exists(script, error))
    throw StorageError(fmt::format("the run \"{}\" is {}, and has no \"{}\" to submit again; use: distdl submit JOB",
                                   folder.string(), state, script.string()),
                       ExitCode::incomplete);
  const auto text = submit::read_own_script(script);
  const auto job = slurm::scheduler().submit({text, submit::folder_of_script(text)});
  observe::Journal(folder).append(records::Submitted{job});
  print_accepted(fmt::format("submitted again as job {}\n", job), {job});
}

void requeue(const RequeueArguments& arguments) {
  const auto folder = arguments.run.find();
  auto summary = observe::summarize_run(folder);
  auto jobs = ask_job_states(jobs_of_interest(summary));
  const RunReport report = make_report(folder, std::move(summary), std::move(jobs));
  const bool works = report.job && is_at_work(*report.job);
  require<UsageError>(works || !report.state.is_live, "the run \"{}\" is {}: there is nothing to requeue",
                      folder.string(), report.state.word);
  if (!works) return submit_again(folder, report.state.word);
  const std::string& job = report.job->job;
  require_job_of_run(folder, job);
  if (arguments.now) {
    slurm::scheduler().requeue(job);
    observe::Journal(folder).append(records::Requeued{job});
    fmt::print("job {} is back in the queue\n", job);
    return;
  }
  observe::Journal(folder).append(records::RequeueRequested{job, "distdl requeue"});
  warn_job(job);
  fmt::print("job {} saves, and goes back to the queue by itself\n", job);
}
}  // namespace

void add_requeue_command(Command app) {
  auto command = app.add_subcommand(
      "requeue", "Let the job of a run save and go back to the queue; submit it again if it has ended");
  auto arguments = std::make_shared<RequeueArguments>();
  arguments->run.add_to(command);
  command.add_flag("--now", arguments->now, "Requeue at once by \"scontrol requeue\", without waiting for a save");
  command.examples({{"distdl requeue 4711", "Let a job save and go back to the queue"},
                    {"distdl requeue run", "Submit the job of a run that has ended again"}});
  command.callback([arguments] { requeue(*arguments); });
}

}  // namespace distdl::app
