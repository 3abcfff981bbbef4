// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/ranges.h>
#include <unistd.h>

#include <distdl/agent/agent.hpp>
#include <distdl/app/cli/command_table.hpp>
#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/app/program.hpp>
#include <distdl/app/runs/avoided_nodes.hpp>
#include <distdl/app/runs/job_log.hpp>
#include <distdl/app/runs/join_target.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/restart.hpp>
#include <distdl/base/stop_signals.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/observe/health/failure_examples.hpp>
#include <distdl/observe/health/failure_watch.hpp>
#include <distdl/observe/health/health_log.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/environment.hpp>
#include <distdl/slurm/host_list.hpp>
#include <distdl/version.hpp>
#include <distdl/world/make_world.hpp>

namespace distdl::app {
namespace {
struct AgentArguments {
  JobArguments job;
  std::string launch_id;
  int ranks = 1, min_nodes = 1;
  std::int64_t below = 0;
  bool no_snapshots = false;
  std::filesystem::path join;  ///< the run folder; empty: this agent begins a launch
};

void start_agent_log(const config::Job& job, bool console) {
  show_times_in_job_log();
  LogOptions options;
  options.level = severity_from(job.observe.level);
  options.console = console;
  options.host = slurm::name_of_node();  // several nodes may have one host name
  options.file = log_of_node(job.run_dir);
  start_logging(options);
}

/// Keeps the requeued job off its batch host if there are other nodes. The slurmd there was never told that the job has
/// ended, and refuses the job's next start as a duplicate; Slurm then drains the node and holds the job.
void avoid_batch_host(const config::Job& job, const slurm::Allocation& allocation) {
  observe::note_bad_node(
      job.run_dir, {slurm::expand_host_list(allocation.node_list).front(),
                    "lost as batch host: it may refuse the next start of the job as a duplicate", allocation.called()});
  exclude_bad_nodes(allocation.called(), job.run_dir, job.launch.bad_node_hours);
}

/// Nobody else is left to do it: the batch host is lost, and with it "distdl run". A run that has finished is requeued
/// too: its next start finds that out at once, and Slurm then counts the job as completed.
void tell_slurm(const config::Job& job, int code, agent::SupervisorSignals& signals) {
  const auto allocation = slurm::allocation_by_variables();
  const bool goes_on = decide_restart(code) != RestartDecision::give_up;
  if (!allocation || !job.launch.requeue || !goes_on) return;
  log(Severity::warning, "the batch host is lost: this agent asks Slurm to requeue job {}", allocation->called());
  observe::Journal journal(job.run_dir);
  journal.append(records::LaunchEnded{code, "the batch host is lost"});
  if (!launch::requeue_job(*allocation, job.launch, signals, true)) return;
  journal.append(records::Requeued{allocation->called()});
  avoid_batch_host(job, *allocation);
}

/// The batch host is back, and Slurm may have killed the batch script there.
void save_job(const config::Job& job) {
  const auto allocation = slurm::allocation_by_variables();
  if (!allocation || !job.launch.requeue || !launch::requeue_if_script_lost(*allocation)) return;
  observe::Journal(job.run_dir).append(records::Requeued{allocation->called()});
}

agent::AgentEvents events_to(observe::Journal& journal) {
  agent::AgentEvents events;
  events.broke_off = [&journal](const agent::BrokenOff& event) {
    const bool is_known = event.kind != agent::CauseKind::unknown;
    const records::GenerationFailed failed{event.generation.value, event.cause,
                                           is_known ? std::string(agent::name_of(event.kind)) : "", event.host,
                                           event.rank};
    journal.append(failed, event.found);
  };
  events.began = [&journal](const agent::GenerationBegan& event) {
    journal.append(records::GenerationBegan{event.generation.value, event.cause, event.ranks,
                                            fmt::format("{}", fmt::join(event.hosts, ","))});
  };
  return events;
}

/// Settings of all agents of a run that follow from the job. Those on which the agents agree are not set.
agent::AgentSpec spec_of(const config::Job& job) {
  agent::AgentSpec spec;
  spec.worker = {own_program(), "worker"};
  for (const auto& word : verbosity_words()) spec.worker.push_back(word);
  spec.run_folder = job.run_dir;
  spec.interface = job.comm.interface;
  spec.exchange_timeout =
      std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(job.comm.connect_timeout_seconds));
  spec.options = job.agent;
  return spec;
}

/// `spec` with what tells of the node and the run, while the agent runs.
int run_with_records(agent::AgentSpec& spec, const config::Job& job, world::World* world,
                     agent::SupervisorSignals& signals) {
  observe::Journal journal(job.run_dir);
  spec.events = events_to(journal);
  const observe::HealthLog health(job.run_dir, slurm::name_of_node(), most_bytes(job.observe));
  std::optional<observe::FailureWatch> failures;
  if (!job.agent.failure_predictor.empty()) {
    failures.emplace(job.run_dir, observe::read_predictor(job.agent.failure_predictor), std::chrono::minutes(1),
                     slurm::name_of_node());
    failures->start();
    spec.is_at_risk = [&failures] { return !failures->nodes_at_risk().empty(); };
  }
  return agent::run_agent(spec, world, signals);
}

/// The agent of a node of another job.
int join_run(const std::filesystem::path& folder) {
  agent::SupervisorSignals signals;
  const JoinTarget target = find_join_target(folder, std::chrono::seconds(0));
  start_agent_log(target.job, slurm::is_first_task());
  auto spec = spec_of(target.job);
  const auto& record = target.launch.record;
  spec.worker.insert(spec.worker.end(), record.arguments.begin(), record.arguments.end());
  spec.worker.insert(spec.worker.end(), record.more.begin(), record.more.end());
  spec.launch_id = record.id;
  spec.ranks = record.ranks;
  spec.min_nodes = record.min_nodes;
  spec.record = record;
  return run_with_records(spec, target.job, nullptr, signals);
}

agent::LaunchRecord record_of(const AgentArguments& arguments, const config::Job& job) {
  agent::LaunchRecord record;
  record.id = arguments.launch_id;
  record.version = DISTDL_VERSION;
  record.job = config::to_toml(job);
  record.arguments = arguments.job.command_line();
  if (arguments.below > 0) record.more = {"--below", std::to_string(arguments.below)};
  record.folder = std::filesystem::current_path().string();
  record.ranks = arguments.ranks;
  record.min_nodes = arguments.min_nodes;
  record.variables = slurm::variables_of_job();
  return record;
}

int run_agent(const AgentArguments& arguments) {
  if (!arguments.join.empty()) return join_run(arguments.join);
  require<UsageError>(!arguments.launch_id.empty(), "{}", "an agent needs a job and --launch, or --join");
  const config::Job job = arguments.job.load();
  // Before any library starts a thread. While the agents wait for each other there is nothing to save.
  StopSignals at_start;
  StartWatch watch(at_start, [](const std::string& reason) {
    log(Severity::info, "{} while the agents were starting: there was nothing to save", reason);
    ::_exit(static_cast<int>(ExitCode::requeue));
  });
  agent::SupervisorSignals signals;
  auto world = world::make_world(std::filesystem::path(job.run_dir) / "launches");
  start_agent_log(job, world->rank().value == 0);
  auto spec = spec_of(job);
  spec.record = record_of(arguments, job);
  for (const auto* words : {&spec.record.arguments, &spec.record.more})
    spec.worker.insert(spec.worker.end(), words->begin(), words->end());
  if (arguments.no_snapshots) spec.at_first = {"--no-snapshots"};
  const auto starts = observe::read_starts(job.run_dir).size();
  spec.has_trained = [&job, starts] { return observe::read_starts(job.run_dir).size() > starts; };
  spec.launch_id = arguments.launch_id;
  spec.ranks = arguments.ranks;
  spec.min_nodes = arguments.min_nodes;
  spec.connected = [&watch] { watch.end(); };
  spec.without_supervisor = [&](int code) { tell_slurm(job, code, signals); };
  spec.after_first_came_back = [&job] { save_job(job); };
  return run_with_records(spec, job, world.get(), signals);
}
}  // namespace

void add_agent_command(Command app) {
  auto command = app.add_subcommand(
      "agent", "Start and watch the ranks of one node of a Slurm job; started by \"distdl run\" through srun");
  auto arguments = std::make_shared<AgentArguments>();
  command.add_option("job", arguments->job.file, "Job file in TOML; see examples/");
  command.add_option("--set", arguments->job.overrides, "Override a key of the job file: --set train.epochs=3")
      .repeatable("KEY=VALUE");
  command.add_option("--launch", arguments->launch_id, "Id of the launch, the same on all nodes");
  command.add_option("--join", arguments->join, "Instead: join the run in this folder; \"distdl join\" says so")
      .type_name("RUN_FOLDER");
  command.add_option("--ranks", arguments->ranks, "Number of ranks on all nodes without the spares").positive();
  command.add_option("--min-nodes", arguments->min_nodes, "Go on with so many nodes after the loss of others")
      .positive();
  command.add_option("--below", arguments->below, "Passed on to the ranks").type_name("STEP").not_negative();
  command.add_flag("--no-snapshots", arguments->no_snapshots, "Passed on to the ranks until they have trained");
  command.notes("Part of \"distdl run\" and \"distdl join\": there is no use to type it.");
  command.callback([arguments] {
    if (const int code = run_agent(*arguments); code != 0) throw Ended(code);
  });
}

}  // namespace distdl::app
