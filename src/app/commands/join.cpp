// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <distdl/agent/processes.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/runs/find_run.hpp>
#include <distdl/app/runs/join_target.hpp>
#include <distdl/app/runs/own_job.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/random.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/environment.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;

constexpr std::size_t kIdBytes = 8;

/// The agents of this job's nodes, by srun. Returns the exit code.
int run_agents(const std::filesystem::path& folder, const slurm::Allocation& allocation,
               agent::SupervisorSignals& signals) {
  launch::LaunchSpec spec;
  spec.allocation = allocation;
  spec.ranks = allocation.tasks;
  spec.mpi = "none";  // they meet in the run folder
  const agent::Process agents{launch::srun_on_each_node(spec, launch::step_name("join-" + random_hex(kIdBytes)),
                                                        {own_program(), "agent", "--join", folder.string()}),
                              slurm::variables_for_step(allocation)};
  agent::Processes srun(std::vector<agent::Process>{agents});
  std::optional<Deadline> again;  // srun forgets a signal that comes before its tasks run
  while (srun.reap() > 0) {
    const auto number = signals.wait(1000ms);
    const bool is_stop = number && *number != SIGCHLD;
    if (is_stop) log(Severity::info, "signal SIG{}: the nodes of this job leave the run", sigabbrev_np(*number));
    if (!is_stop && !(again && again->expired())) continue;
    srun.signal(SIGUSR1);
    again = Deadline::after(2s);
  }
  return srun.code();
}

void join(const RunArgument& run) {
  const auto folder = std::filesystem::absolute(run.find());
  const auto allocation = slurm::current_allocation();
  require<UsageError>(allocation.has_value(), "{}",
                      "this is not a Slurm job: submit one with \"distdl submit --join RUN\"");
  check_own_job(*allocation, "distdl join");
  agent::SupervisorSignals signals;
  require_running(folder);
  const auto target = find_join_target(folder, 60s);
  require_free_place(folder, target);
  log(Severity::info, "{} node(s) of job {} join the run in \"{}\", which has {} and wants {} more", allocation->nodes,
      allocation->called(), folder.string(), target.launch.newest.members.size(), target.free_places());
  if (const int code = run_agents(folder, *allocation, signals); code != 0) throw Ended(code);
}
}  // namespace

void add_join_command(Command app) {
  auto command = app.add_subcommand(
      "join", "Inside a Slurm job: add the job's nodes to a run that has fewer nodes than it can use");
  auto run = std::make_shared<RunArgument>();
  run->add_to(command);
  command.notes(
      "\"distdl submit --join RUN\" submits a job that runs this command. The command ends when the run ends.");
  command.examples({{"distdl join run", "In the script of a job whose nodes shall join the run"}});
  command.callback([run] { join(*run); });
}

}  // namespace distdl::app
