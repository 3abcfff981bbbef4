// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/agent/supervisor.hpp>
#include <distdl/app/commands.hpp>
#include <distdl/app/job_arguments.hpp>
#include <distdl/base/log.hpp>
#include <distdl/observe/run_folder.hpp>
#include <distdl/parallel/plan.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::app {
namespace {
struct Arguments {
  JobArguments job;
  bool local = false, partial = false, no_snapshots = false;
  int ranks = 0;
  bool json = false;
};

void print_result(const std::filesystem::path& folder, bool json) {
  auto result = observe::read_result(folder);
  if (json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"run_dir", folder.string()},
                                              {"steps", result.steps},
                                              {"loss", result.loss},
                                              {"accuracy", result.accuracy},
                                              {"samples_per_s", result.samples_per_s},
                                              {"interruptions", result.interruptions},
                                              {"steps_repeated", result.steps_repeated},
                                              {"failed_saves", result.failed_saves},
                                              {"skipped_saves", result.skipped_saves},
                                              {"ranks", result.ranks},
                                              {"backend", result.backend}}
                           .dump(2));
    return;
  }
  fmt::print(
      "accuracy       {:.2f}%\nloss           {:.4f}\nsteps          {}\nsamples/s      {:.0f}\ninterruptions  {}\n"
      "steps repeated {}\nrun folder     {}\n",
      result.accuracy * 100, result.loss, result.steps, result.samples_per_s, result.interruptions,
      result.steps_repeated, folder.string());
}

std::string own_program() {
  std::error_code error;
  auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  require<InternalError>(!error, "cannot find this program's own file: {}", error.message());
  return path.string();
}

/// Here, so that an unwritable folder is one error and not one of each rank.
void make_run_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder / "logs", error);
  require<StorageError>(!error && ::access((folder / "logs").c_str(), W_OK) == 0,
                        "cannot write to the run folder \"{}\": {}; choose another run.dir", folder.string(),
                        error ? error.message() : errno_text(errno));
}

void run(const Arguments& arguments) {
  config::Job job = arguments.job.load();
  LogOptions logging;
  logging.level = severity_from(job.observe.level);
  start_logging(logging);
  agent::Mission mission;
  mission.checkpoints = std::filesystem::path(job.run_dir) / "checkpoints";
  if (!arguments.local) mission.allocation = slurm::current_allocation();
  require<UsageError>(
      arguments.local || mission.allocation,
      "this is no Slurm job: submit one with \"sbatch sbatch/train.sbatch JOB\", or add --local -n RANKS to run on "
      "this machine");
  mission.ranks = arguments.ranks > 0 ? arguments.ranks : mission.allocation ? mission.allocation->tasks : 1;
  parallel::make_plan(job.recipe.parallel, mission.ranks);  // refuses nonsense before any rank starts
  make_run_folder(job.run_dir);
  mission.worker = {own_program(), "worker"};
  for (auto& word : arguments.job.command_line()) mission.worker.push_back(word);
  if (arguments.no_snapshots) mission.at_first = {"--no-snapshots"};
  mission.starts = [&job] { return observe::read_starts(job.run_dir); };
  mission.below = "--below";
  int code = agent::supervise(mission, job.agent);
  if (code != 0) throw CLI::RuntimeError(code);
  print_result(job.run_dir, arguments.json);
}
}  // namespace

void add_run_command(CLI::App& app) {
  auto* command = app.add_subcommand(
      "run", "Run a job to its end: the ranks of a Slurm allocation, or processes on this machine with --local");
  auto arguments = std::make_shared<Arguments>();
  arguments->job.add_to(*command);
  command->add_flag("--local", arguments->local, "Ranks are processes on this machine; no Slurm, no root");
  command->add_option("-n,--ranks", arguments->ranks, "Number of ranks; under Slurm the default is the job's tasks")
      ->check(CLI::PositiveNumber);
  command->add_flag("--partial", arguments->partial,
                    "Resume also from a checkpoint that lacks tensors, which begin afresh, or has others");
  command->add_flag("--no-snapshots", arguments->no_snapshots,
                    "Start from the newest checkpoint, even if there are newer snapshots in the nodes' memory or on "
                    "their disks: these are removed");
  command->add_flag("--json", arguments->json, "Print the result as JSON");
  command->callback([arguments] {
    if (arguments->partial) arguments->job.overrides.emplace_back("checkpoint.partial=true");
    run(*arguments);
  });
}

}  // namespace distdl::app
