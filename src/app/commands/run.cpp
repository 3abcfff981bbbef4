// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/agent/agent.hpp>
#include <distdl/app/checks/job_check.hpp>
#include <distdl/app/checks/program_check.hpp>
#include <distdl/app/checks/run_folder_check.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/app/runs/job_log.hpp>
#include <distdl/app/runs/own_job.hpp>
#include <distdl/app/runs/preflight.hpp>
#include <distdl/app/runs/run_records.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/process_start.hpp>
#include <distdl/base/restart.hpp>
#include <distdl/config/effects.hpp>
#include <distdl/health/gpu_health.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/launch/supervisor.hpp>
#include <distdl/observe/alerts/alert_watch.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/observe/rank_failure_watch.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/mpi_types.hpp>
#include <distdl/slurm/nodes.hpp>
#include <distdl/train/memory.hpp>

namespace distdl::app {
namespace {
struct RunArguments {
  JobArguments job;
  bool local = false, partial = false, no_snapshots = false, take_over = false, check = false;
  int ranks = 0;
  bool json = false;
};

void print_result(const std::filesystem::path& folder, bool json) {
  auto result = observe::read_result(folder);
  if (json) {
    nlohmann::ordered_json row{{"run_dir", folder.string()}};
    row.update(nlohmann::ordered_json::parse(observe::to_text(result)));
    row.erase("status");  // which the exit code tells
    fmt::print("{}\n", row.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  const auto accuracy = result.accuracy ? fmt::format("{:.2f}%", *result.accuracy * 100)
                        : result.loss   ? "none, the data have no classes"
                                        : "none, no validation data";
  const auto loss = result.loss ? fmt::format("{:.4f}", *result.loss) : "none, no validation data";
  const auto utilization = [](const char* name, const std::optional<double>& share) {
    return share ? fmt::format("{}            {:.1f}%\n", name, *share * 100) : "";
  };
  const auto early = result.cause.empty() ? "" : fmt::format(" (ended early: {})", printable(result.cause));
  const auto text = fmt::format(
      "accuracy       {}\nloss           {}\nsteps          {}{}\nsamples/s      {:.0f}\n{}interruptions  {}\n"
      "steps repeated {}\nrun folder     {}\n",
      accuracy, loss, result.steps, early, result.samples_per_s,
      utilization("MFU", result.mfu) + utilization("HFU", result.hfu), result.interruptions, result.steps_repeated,
      printable(folder.string()));
  write_console(STDOUT_FILENO, text);  // a courtesy: the run has ended well, and result.json says the same
}

void check_run(const RunArguments& arguments) {
  const config::Job job = arguments.job.load();
  config::log_warnings(job);
  check_run_folder(job.run_dir);
  if (!job.observe.openmetrics.empty()) observe::check_metrics_file(job.observe.openmetrics);
  const auto about = check_job(job, kAnyMemory, RankCounts{arguments.ranks, arguments.ranks});
  const auto name = arguments.job.file.empty() ? std::string("the job") : arguments.job.file.string();
  fmt::print("{}: ok; {}\n", printable(name), about);
}

/// Memory of this machine in bytes, for ranks that are processes on it; kAnyMemory where ranks are elsewhere or may use
/// a GPU.
std::uint64_t memory_for_ranks(const kernels::Options& kernels, const RankCounts& ranks) {
  const bool may_use_gpu =
      kernels.backend == "cuda" || (kernels.backend == "auto" && health::GpuMonitor::open() != nullptr);
  return ranks.here > 0 && !may_use_gpu ? train::memory_of_node() : kAnyMemory;
}

/// One error here, and not a launch of all ranks that ends with it. What a job cannot read that has trained before, its
/// nodes may see again in a moment: its ranks try.
void check_before_launch(const config::Job& job, bool in_slurm_job, const RankCounts& ranks) try {
  if (job.program.is_given()) return check_program(job, ranks);
  check_job(job, memory_for_ranks(job.recipe.kernels, ranks), ranks);
} catch (const Error& error) {
  const bool can_pass = may_pass(static_cast<int>(error.exit_code()), {.has_trained = true});
  if (!can_pass || !in_slurm_job || observe::read_starts(job.run_dir).empty()) throw;
  check_plan(job, ranks);  // as far as that is possible without the model
  log(Severity::warning, "{}; the ranks are started all the same, because the run has trained before", error.what());
}

/// Slurm's commands are asked only where there are nodes to start ranks on.
void choose_mpi(launch::LaunchSpec& spec, const config::Job& job) {
  if (job.launch.mpi != launch::Mpi::choose) spec.mpi = job.launch.mpi.name();
  if (job.launch.mpi != launch::Mpi::choose || !spec.allocation || spec.allocation->node_list.empty()) return;
  spec.mpi = slurm::best_mpi_type(slurm::mpi_types());
  if (spec.mpi != "pmix")
    log(Severity::info, "srun here has no --mpi=pmix: the ranks find each other in \"{}\"",
        (std::filesystem::path(job.run_dir) / "launches").string());
}

/// Under Slurm, unless the job wants it otherwise.
void use_agents(launch::LaunchSpec& spec, const config::Job& job) {
  spec.agents = spec.allocation && job.agent.recovery == agent::Recovery::agents;
  if (!spec.agents) return;
  spec.ranks = count_ranks(job, spec.ranks, spec.allocation->nodes).at_start;
  spec.spares = static_cast<int>(job.agent.spares);
  spec.min_nodes = launch::nodes_needed(spec, slurm::fewest_nodes(*spec.allocation));
}

/// On the console and, once there is a run folder, in the log of this host too: the console may go with the job.
void start_supervisor_log(const config::Job& job, bool has_folder) try {
  show_times_in_job_log();
  LogOptions logging;
  logging.level = severity_from(job.observe.level);
  if (has_folder) logging.file = log_of_node(job.run_dir);
  start_logging(logging);
} catch (const StorageError& error) {
  start_supervisor_log(job, false);
  log(Severity::warning, "{}; the run goes on without it", error.what());
}

/// Notes the end of the job. One that was refused leaves job.toml as it was before: that is the job of what is there.
void end_records(const config::Job& job, RunRecords& records, const std::optional<std::string>& job_before, int code,
                 const std::string& error = {}) {
  const bool is_anothers = code == static_cast<int>(ExitCode::incompatible) || records.is_refused(code);
  records.ended(code, error);
  if (is_anothers && job_before) observe::keep_job(job.run_dir, *job_before);
}

/// Returns the exit code. `job_before`: that of the run's last start.
int supervise(launch::LaunchSpec& spec, const config::Job& job, agent::SupervisorSignals& signals, RunRecords& records,
              const std::optional<std::string>& job_before) try {
  use_agents(spec, job);
  if (const auto head = head_of_log(job, spec); !head.empty()) log(Severity::info, "{}", head);
  const bool goes_on = check_nodes(spec, job, signals, records);
  const int code = goes_on ? launch::supervise(spec, job.launch, signals) : static_cast<int>(ExitCode::requeue);
  end_records(job, records, job_before, code);
  return code;
} catch (const Error& error) {
  end_records(job, records, job_before, static_cast<int>(error.exit_code()), error.what());
  throw;
}

/// Job file of the last start, if it can be read.
std::optional<std::string> job_before(const std::filesystem::path& run_folder) try {
  return observe::kept_job(run_folder);
} catch (const StorageError&) {
  return std::nullopt;
}

/// Whether the program of this run has done all its work, or all up to train.end_at_step, in an earlier start. Whoever
/// wants it done again takes another folder.
bool has_finished(const config::Job& job) try {
  if (!job.program.is_given() || observe::read_starts(job.run_dir).empty()) return false;
  const auto result = observe::read_result(job.run_dir);
  const auto end_at = job.recipe.train.end_at_step;
  const bool has_more = result.cause_code == records::kStoppedEarly && (end_at == 0 || result.steps < end_at);
  return result.status == observe::ResultStatus::finished && !has_more;
} catch (const StorageError&) {  // there is no result yet
  return false;
}

/// How the ranks are started, and what is asked of the run in between. `job` must outlive the spec.
void describe_launches(launch::LaunchSpec& spec, const config::Job& job, const RunArguments& arguments) {
  spec.worker = {own_program(), "worker"};
  for (auto& word : arguments.job.command_line()) spec.worker.push_back(word);
  for (auto& word : verbosity_words()) spec.worker.push_back(word);
  if (arguments.no_snapshots) spec.at_first = {"--no-snapshots"};
  spec.starts = [&job] { return observe::read_starts(job.run_dir); };
  spec.last_done = [&job] { return observe::read_last_step(job.run_dir); };
  spec.below = "--below";
  choose_mpi(spec, job);
  spec.is_poisoned = [&job] { return observe::has_met_poison(observe::read_journal(job.run_dir)); };
  if (job.program.is_given())
    spec.has_failed = [watch = std::make_shared<observe::RankFailureWatch>(job.run_dir)] {
      return watch->has_failed();
    };
  const double lost = std::min(job.agent.node_lost_seconds, job.launch.probe_seconds);
  spec.node_lost = std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(lost));
}

void run(const RunArguments& arguments) {
  const config::Job job = arguments.job.load();
  start_supervisor_log(job, false);
  config::log_warnings(job);
  if (job.launch.hangup == launch::Hangup::ignore) ignore_hangup();
  agent::SupervisorSignals signals;  // from here on a request to stop ends with 75
  launch::LaunchSpec spec;
  spec.checkpoints = std::filesystem::path(job.run_dir) / "checkpoints";
  if (!arguments.local) spec.allocation = slurm::current_allocation();
  require<UsageError>(
      arguments.local || spec.allocation,
      "this is not a Slurm job: submit one with \"distdl submit JOB\", or add --local -n RANKS to run on "
      "this machine");
  if (spec.allocation) check_own_job(*spec.allocation, "distdl run");
  config::check_surroundings(job, {.launch = spec.allocation ? "Slurm" : "--local"});
  if (spec.allocation && job.launch.requeue) warn_without_scontrol();
  spec.stall = agent::stall_limits_of(job.agent);
  spec.runs_program = job.program.is_given();
  spec.ranks = arguments.ranks > 0 ? arguments.ranks : spec.allocation ? spec.allocation->tasks : 1;
  auto ranks = count_ranks(job, spec.ranks, spec.allocation ? spec.allocation->nodes : 0);
  // A run that has trained before goes on with the ranks that there are, in other pipelines if need be.
  ranks.goes_on = !observe::read_starts(job.run_dir).empty();
  if (!spec.allocation) {
    ranks.here = spec.ranks;
    ranks.nodes = 1;
  }
  check_before_launch(job, spec.allocation.has_value(), ranks);
  if (!spec.allocation) require_descriptors(spec.ranks);
  make_run_folder(job.run_dir);
  launch::FolderLock lock(job.run_dir, arguments.take_over);
  spec.lock = &lock;
  agent::remove_abandoned_launches(job.run_dir);
  start_supervisor_log(job, true);
  const auto kept_before = job_before(job.run_dir);
  observe::keep_job(job.run_dir, config::to_toml(job));
  RunRecords records(job.run_dir, spec);
  if (records.run_has_ended()) return log(Severity::info, "an earlier job of this chain has ended the run");
  if (has_finished(job)) {
    records.ended(0);
    log(Severity::info, "the run in \"{}\" has finished before; to run the program again, choose another run.dir",
        job.run_dir);
    return;
  }
  records.attach(spec, job.launch.bad_node_hours);
  describe_launches(spec, job, arguments);
  std::optional<observe::AlertWatch> alerts;
  if (!job.alerts.empty()) alerts.emplace(job.run_dir, job.alerts).start();
  const int code = supervise(spec, job, signals, records, kept_before);
  alerts.reset();
  if (code != 0) throw Ended(code);
  if (!job.program.is_given() || arguments.json) print_result(job.run_dir, arguments.json);
}
}  // namespace

void add_run_command(Command app) {
  auto command = app.add_subcommand(
      "run", "Run a job to its end: the ranks of a Slurm allocation, or processes on this machine with --local");
  auto arguments = std::make_shared<RunArguments>();
  arguments->job.add_with_program(command);
  command.add_flag("--local", arguments->local,
                   "Run the ranks as processes on this machine, without Slurm and without root");
  command.add_option("-n,--ranks", arguments->ranks, "Number of ranks; under Slurm the default is the job's tasks")
      .positive();
  command.add_flag("--partial", arguments->partial,
                   "Also resume from a checkpoint that lacks tensors or has others; missing tensors are initialized");
  command.add_flag(
      "--no-snapshots", arguments->no_snapshots,
      "Start from the newest checkpoint, and remove newer snapshots in the nodes' memory and on their disks");
  command.add_flag("--take-over", arguments->take_over,
                   "Take the run folder from another \"distdl run\" that uses it; the other run then ends");
  command.add_flag("--check", arguments->check,
                   "Only check the job, also outside Slurm; GPUs and memory of its nodes are not checked");
  command.add_flag("--json", arguments->json, "Print the result as JSON");
  command.examples({{"distdl run --local -n 4 job.toml", "Train on this machine, with 4 ranks"},
                    {"distdl run --local -n 2 job.toml --set train.epochs=2 --set run.dir=small",
                     "Change keys of the job file for one run"},
                    {"distdl run job.toml --check", "Only check the job"},
                    {"sbatch --nodes=2-3 train.sbatch job.toml",
                     "Train on nodes of Slurm by a script of your own, which calls \"distdl run job.toml\""}});
  command.callback([arguments] {
    if (arguments->partial) arguments->job.overrides.emplace_back("checkpoint.partial=true");
    arguments->check ? check_run(*arguments) : run(*arguments);
  });
}

}  // namespace distdl::app
