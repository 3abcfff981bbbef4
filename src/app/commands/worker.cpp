// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <memory>

#include <distdl/agent/cpu_binding.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/app/worker/failure.hpp>
#include <distdl/app/worker/program_rank.hpp>
#include <distdl/app/worker/rank.hpp>
#include <distdl/app/worker/signals.hpp>
#include <distdl/base/activity.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/process_start.hpp>
#include <distdl/world/make_world.hpp>

namespace distdl::app {
namespace {
struct WorkerArguments {
  JobArguments job;
  Resume resume;
};

void run_rank_of_program(const config::Job& job, world::World& world, WorkerSignals& signals) {
  int code = 0;
  try {
    code = run_program(job, world, signals);
  } catch (const std::exception& error) {
    // The rank whose program failed first knows why.
    const bool is_cause = gone(error).empty() && exit_code_of(error) != ExitCode::peer_lost;
    fail(world.rank(), error, is_cause ? Speakers::this_rank : Speakers::lowest_rank);
  }
  if (code != 0) throw Ended(code);
}

void work(const WorkerArguments& arguments) {
  agent::bind_to_processors();
  show_activity();
  enter_phase(RankPhase::start);
  WorkerSignals signals;  // before any library starts a thread
  config::Job job = arguments.job.load();
  if (const auto generation = env_integer("DISTDL_GENERATION"))
    job.comm.generation = static_cast<std::uint32_t>(*generation);
  if (job.launch.hangup == launch::Hangup::ignore) ignore_hangup();
  const auto pmix = job.program.is_given() ? world::StepPmix::leave_to_child : world::StepPmix::use;
  auto world = world::make_world(std::filesystem::path(job.run_dir) / "launches", pmix);
  start_worker_log(job, world->rank());
  if (job.program.is_given()) return run_rank_of_program(job, *world, signals);
  auto outcome = train::Outcome::stopped;
  try {
    outcome = run_connected(job, arguments.resume, *world, signals);
  } catch (const Ended&) {
    throw;
  } catch (const std::exception& error) {
    fail(world->rank(), error);
  }
  if (outcome == train::Outcome::stopped) throw Ended(static_cast<int>(ExitCode::requeue));
}
}  // namespace

void add_worker_command(Command app) {
  auto command =
      app.add_subcommand("worker", "Run one rank of a job; started by \"distdl run\", or directly by srun --mpi=pmix");
  auto arguments = std::make_shared<WorkerArguments>();
  arguments->job.add_with_program(command);
  command.add_flag("--no-snapshots", arguments->resume.no_snapshots, "Same as for \"distdl run\"");
  command
      .add_option("--below", arguments->resume.below,
                  "Start from a checkpoint or snapshot before this step, if there is such a checkpoint; \"distdl run\" "
                  "passes it after two starts from that step have failed")
      .type_name("STEP")
      .not_negative();
  command.examples({{"srun --nodes=2 --ntasks=4 --mpi=pmix distdl worker job.toml",
                     "Start ranks without the supervisor, which would relaunch them"}});
  command.callback([arguments] { work(*arguments); });
}

}  // namespace distdl::app
