// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <memory>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/app/checks/job_check.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/pager.hpp>
#include <distdl/app/runs/job_log.hpp>
#include <distdl/app/runs/own_job.hpp>
#include <distdl/app/runs/submission.hpp>
#include <distdl/app/sweep/sweep_array.hpp>
#include <distdl/app/sweep/sweep_driver.hpp>
#include <distdl/app/sweep/sweep_report.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/config/job.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/launch/folder_lock.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/environment.hpp>
#include <distdl/slurm/scheduler.hpp>
#include <distdl/submit/sbatch_options.hpp>

namespace distdl::app {
namespace {
struct SweepArguments {
  std::filesystem::path file;
  bool local = false, array = false, dry_run = false, status = false, retry = false, json = false;
};

/// One error before anything is started, rather than one of each run.
void check_jobs(const Sweep& sweep) {
  const auto points = points_of(sweep);
  for (std::size_t run = 0; run < points.size(); ++run) {
    const config::Job job = config::load(sweep.job, points[run]);
    const auto& recipe = job.recipe;
    require(!job.program.is_given() || sweep.method != SweepMethod::tournament,
            "the runs of a tournament take over each other's checkpoints, but those of a program (run.command) are its "
            "own: \"{}\" can be swept by grid, random or halving",
            sweep.job);
    require(job.program.is_given() || !recipe.data.validation.empty() || recipe.data.holdout > 0,
            "the runs of a sweep are compared by evaluations, but \"{}\" has nothing to evaluate on: set "
            "data.validation or data.holdout",
            sweep.job);
    require(recipe.train.end_at_step == 0, "\"{}\" has train.end_at_step, which the sweep itself sets; leave it out",
            sweep.job);
    if (run > 0) continue;
    config::log_warnings(job);
    check_job(job);
  }
}

/// Whether runs of the same numbers are the same. More runs may be drawn than before.
bool is_same_sweep(const Sweep& now, const Sweep& before) {
  auto mine = points_of(now), others = points_of(before);
  if (now.method == SweepMethod::random) {
    mine.resize(std::min(mine.size(), others.size()));
    others.resize(mine.size());
  }
  return now.job == before.job && now.method == before.method && now.metric == before.metric && mine == others &&
         now.first_steps == before.first_steps && now.keep_one_in == before.keep_one_in &&
         now.rounds == before.rounds && (now.method != SweepMethod::tournament || now.seed == before.seed);
}

void make_folder(const Sweep& sweep) {
  make_folders(real_file_system(), resolved(sweep.folder));
}

/// Puts a copy of the sweep file into the folder. Throws ConfigError if another sweep lies there.
void take_folder(const Sweep& sweep, const std::string& text) {
  const auto copy = resolved(sweep.folder) / kSweepFile;
  if (is_there(copy))
    require(is_same_sweep(sweep, read_sweep(copy)),
            "the folder \"{}\" has the runs of another sweep, see \"{}\"; give this one another sweep.folder",
            sweep.folder, copy.string());
  replace_text(real_file_system(), copy, text);
}

/// Within an allocation each run has a step of one node of its own.
SweepProcesses sweep_processes(const Sweep& sweep, const std::optional<slurm::Allocation>& job) {
  std::vector<std::string> step;
  SweepProcesses processes;
  if (job) {
    step = {"srun",
            "--jobid=" + job->job,
            "--nodes=1",
            "--ntasks=1",
            fmt::format("--cpus-per-task={}", sweep.ranks),
            "--exact",
            "--mem=0"};
    if (job->in_step) step.emplace_back("--overlap");
    processes.variables = slurm::variables_for_step(*job);
  }
  processes.command = [&sweep, step](const std::vector<std::string>& words) {
    std::vector<std::string> all = step;
    all.insert(all.end(), {own_program(), "run", "--local", "-n", std::to_string(sweep.ranks)});
    all.insert(all.end(), words.begin(), words.end());
    return all;
  };
  processes.stop_signal = job ? SIGUSR1 : SIGTERM;  // srun hands USR1 on, where TERM would end the step
  return processes;
}

void print_sweep(const Sweep& sweep, bool json) {
  const auto runs = read_swept_runs(sweep, sweep.folder);
  if (json)
    fmt::print("{}\n", to_json(sweep, runs).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    print_paged(to_text(sweep, runs));
}

/// After a stop or a failure what follows matters more than whether anybody gets the table.
void print_end(const Sweep& sweep, bool json, int code) try {
  print_sweep(sweep, json);
} catch (const std::system_error& error) {
  if (code == 0) throw;
  log(Severity::warning, "the table of the sweep is lost: {}", error.what());
}

void submit_array(const Sweep& sweep, const std::string& text, const SweepArguments& arguments) {
  require(
      sweep.method == SweepMethod::grid || sweep.method == SweepMethod::random,
      "a sweep by {} compares its runs while it goes on, which a job array cannot; use --local, or \"distdl sweep\" "
      "within one job",
      sweep.method);
  const auto left = next_rung(sweep, read_swept_runs(sweep, sweep.folder)).left;
  if (left.empty())
    return fmt::print("nothing is left to do; see \"distdl sweep {} --status\"\n", printable(arguments.file.string()));
  const auto script = array_script(sweep, left, "distdl sweep " + submit::quote(arguments.file.string()) + " --array");
  if (arguments.dry_run) return fmt::print("{}", script);
  make_folder(sweep);
  take_folder(sweep, text);
  replace_text(real_file_system(), resolved(sweep.folder) / "sweep.sbatch", script);
  const auto job = slurm::scheduler().submit({script, std::filesystem::current_path()});
  print_accepted(fmt::format("submitted job array {} of {} runs; see \"distdl sweep {} --status\"\n", job, left.size(),
                             printable(arguments.file.string())),
                 {job});
}

/// The job that the sweep trains in, if the job file of its runs says so.
void requeue_sweep(const Sweep& sweep, const slurm::Allocation& allocation, agent::SupervisorSignals& signals) {
  const auto options = config::load(sweep.job, points_of(sweep).front()).launch;
  if (options.requeue) launch::requeue_job(allocation, options, signals);
}

void train_sweep(const Sweep& sweep, const std::string& text, const SweepArguments& arguments) {
  const auto allocation = arguments.local ? std::nullopt : slurm::current_allocation();
  require<UsageError>(arguments.local || allocation, "{}",
                      "this is not a Slurm job: add --local to train the runs on this machine, or --array to submit "
                      "them as a job array");
  if (allocation) check_own_job(*allocation, "distdl sweep");
  show_times_in_job_log();
  start_logging({});
  agent::SupervisorSignals signals;
  check_jobs(sweep);
  make_folder(sweep);
  const launch::FolderLock lock(sweep.folder, false);
  take_folder(sweep, text);
  const auto processes = sweep_processes(sweep, allocation);
  const int code = SweepDriver(sweep, processes, signals).run(arguments.retry);
  print_end(sweep, arguments.json, code);
  if (code == static_cast<int>(ExitCode::requeue) && allocation) requeue_sweep(sweep, *allocation, signals);
  if (code != 0) throw Ended(code);
}

void sweep_by(const SweepArguments& arguments) {
  constexpr std::size_t kMost = 64 << 10;  // as read_sweep()
  const Sweep sweep = read_sweep(arguments.file);
  if (arguments.status) return print_sweep(sweep, arguments.json);
  const auto text = read_regular(arguments.file, kMost);
  if (arguments.array) {
    check_jobs(sweep);
    return submit_array(sweep, text, arguments);
  }
  train_sweep(sweep, text, arguments);
}
}  // namespace

void add_sweep_command(Command app) {
  auto command = app.add_subcommand(
      "sweep",
      "Train many runs of a job that differ in some keys, and show which is best: grid, random, halving, tournament");
  auto arguments = std::make_shared<SweepArguments>();
  command.add_option("SWEEP", arguments->file, "Sweep file in TOML, with tables [sweep] and [vary]").required();
  auto local = command.add_flag("--local", arguments->local, "Train the runs on this machine, without Slurm");
  auto array = command.add_flag("--array", arguments->array, "Submit the runs that are left as a job array of Slurm");
  array.excludes(local);
  command.add_flag("--dry-run", arguments->dry_run, "With --array: print the script, and submit nothing").needs(array);
  auto status = command.add_flag("--status", arguments->status, "Only show the runs, the best one first");
  status.excludes(local).excludes(array);
  command.add_flag("--retry-failed", arguments->retry, "Train also the runs that have failed before")
      .excludes(array)
      .excludes(status);
  command.add_flag("--json", arguments->json, "Print the table as JSON").excludes(array);
  command.notes(
      "Without --local and --array it trains the runs within the job of Slurm that it runs in, each on one node. Run "
      "the "
      "same command again after 75: the sweep goes on. See docs/many-runs.md.");
  command.examples({{"distdl sweep sweep.toml --local", "Train the runs on this machine"},
                    {"distdl sweep sweep.toml --status", "See how far they are, and which is best"},
                    {"distdl sweep sweep.toml --array --dry-run", "Print the script of a job array, one task a run"}});
  command.callback([arguments] { sweep_by(*arguments); });
}

}  // namespace distdl::app
