// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include <distdl/app/commands.hpp>
#include <distdl/app/job_arguments.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/observe/progress.hpp>
#include <distdl/observe/run_folder.hpp>
#include <distdl/train/run.hpp>
#include <distdl/train/stop.hpp>
#include <distdl/world/make_world.hpp>

namespace distdl::app {
namespace {
std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

void start_worker_log(const config::Job& job, Rank rank) {
  LogOptions options;
  options.level = severity_from(job.observe.level);
  options.console = rank.value == 0;
  options.host = host_name();
  options.rank = rank.value;
  options.file = std::filesystem::path(job.run_dir) / "logs" / (options.host + ".log");
  start_logging(options);
  log(Severity::debug, "job file with overrides\n{}", config::to_toml(job));
}

/// All ranks must have read the same job, or the run would be nonsense without anyone noticing.
void check_same_job(const config::Job& job, comm::Communicator& communicator) {
  auto all = communicator.all_gather(config::to_toml(job));
  for (std::size_t r = 1; r < all.size(); ++r)
    require(all[r] == all[0],
            "rank {} ({}) reads other values in the job file than rank 0 ({}); all nodes must see the same file", r,
            communicator.host(Rank(static_cast<int>(r))), communicator.host(Rank(0)));
}

train::Setting make_setting(const config::Job& job, train::StopSignals& signals) {
  train::Setting setting;
  setting.checkpoints = std::filesystem::path(job.run_dir) / "checkpoints";
  setting.owner = {env("SLURM_JOB_ID").value_or("local"), env_integer("SLURM_RESTART_COUNT").value_or(0),
                   job.comm.generation, ""};
  auto end = env_integer("DISTDL_END_OF_JOB");
  if (!end) end = env_integer("SLURM_JOB_END_TIME");
  if (end) setting.end_of_job = std::chrono::system_clock::from_time_t(*end);
  setting.stop_requested = [&signals] { return signals.poll(); };
  return setting;
}

train::Outcome run_rank(const config::Job& job, comm::Communicator& communicator, train::StopSignals& signals) {
  check_same_job(job, communicator);
  auto setting = make_setting(job, signals);
  train::Observer silent;
  if (communicator.rank().value != 0) return train::run(job.recipe, setting, communicator, silent);
  observe::Progress progress(stderr);
  observe::RunFolder folder(job.run_dir, setting.owner.restart);
  observe::Observers both({&folder, &progress});
  return train::run(job.recipe, setting, communicator, both);
}

void work(const JobArguments& arguments) {
  train::StopSignals signals;  // before any library starts a thread
  config::Job job = arguments.load();
  auto world = world::make_world();
  start_worker_log(job, world->rank());
  auto communicator = comm::Communicator::connect(*world, job.comm);
  log(Severity::debug, "rank {} of {} by {}, {}", communicator->rank(), communicator->size(), world->description(),
      communicator->description());
  auto outcome = train::Outcome::stopped;
  try {
    outcome = run_rank(job, *communicator, signals);
    communicator->close();
  } catch (const std::exception& error) {
    log(Severity::error, "{}", error.what());
    communicator->abort(error.what());
    throw;
  }
  if (outcome == train::Outcome::stopped) throw CLI::RuntimeError(static_cast<int>(ExitCode::requeue));
}
}  // namespace

void add_worker_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("worker", "One rank of a job; started by \"distdl run\", or directly by srun --mpi=pmix");
  auto arguments = std::make_shared<JobArguments>();
  arguments->add_to(*command);
  command->callback([arguments] { work(*arguments); });
}

}  // namespace distdl::app
