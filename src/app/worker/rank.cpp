// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>

#include <distdl/agent/beats.hpp>
#include <distdl/app/cli/arguments.hpp>
#include <distdl/app/plan/run_forecast.hpp>
#include <distdl/app/ranks/local_ranks.hpp>
#include <distdl/app/runs/job_log.hpp>
#include <distdl/app/worker/failure.hpp>
#include <distdl/app/worker/host.hpp>
#include <distdl/app/worker/rank.hpp>
#include <distdl/base/activity.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process_start.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/forecast/automatic.hpp>
#include <distdl/observe/health/health_log.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/progress_bar.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/records/observer.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/train/memory.hpp>

namespace distdl::app {
namespace {
/// All ranks must have read the same job, or the run would be nonsense without anyone noticing.
void check_same_job(const config::Job& job, comm::Communicator& communicator) {
  auto all = communicator.all_gather_strings(config::to_toml(job));
  for (std::size_t r = 1; r < all.size(); ++r)
    require(all[r] == all[0],
            "rank {} ({}) has other values in the job file than rank 0 ({}); all nodes must have the same file", r,
            communicator.host(Rank(static_cast<int>(r))), communicator.host(Rank(0)));
}

/// Passes rank 0's records to the run folder, to the progress bar, and the step to the agent, if there is one.
class Audience final : public records::Observer {
 public:
  Audience(observe::RunFolder& folder, observe::Progress& progress, agent::Beats* beats)
      : folder_(folder), progress_(progress), beats_(beats) {}
  void on(const records::Record& record) override {
    folder_.on(record);
    progress_.on(record);
    if (!beats_) return;
    if (const auto* started = std::get_if<records::Started>(&record))
      beats_->step_done(started->resumed_from.value_or(Step(0)));
    if (const auto* done = std::get_if<records::StepDone>(&record)) beats_->step_done(done->step);
  }
  void save_begins() override { folder_.save_begins(); }

 private:
  observe::RunFolder& folder_;
  observe::Progress& progress_;
  agent::Beats* beats_;
};

/// Adds the figures of this node's kind. Figures that cannot be read do not end a run, which chooses without them.
void add_figures_if_any(forecast::Machine& machine, const config::Job& job) try {
  add_figures(machine, job);
} catch (const ConfigError& error) {
  log(Severity::warning, "{}; until it is written anew, nothing counts as measured", error.what());
}

/// Collective. Decides what parallel.strategy = "auto" means for these ranks, and the stages of pipelines. Returns
/// nothing if the job has neither.
std::optional<forecast::Decision> decide(config::Job& job, comm::Communicator& communicator) {
  auto& recipe = job.recipe;
  const bool is_automatic = recipe.parallel.strategy == parallel::Strategy::automatic;
  if (!is_automatic && recipe.parallel.pipeline_ranks == 1) return std::nullopt;
  auto decision = forecast::decide(recipe, communicator, train::memory_of_node(),
                                   [&](forecast::Machine& machine) { add_figures_if_any(machine, job); });
  recipe = decision.recipe;
  log(communicator.rank() == Rank(0) ? Severity::info : Severity::debug,
      "{}{} rank{}: {}; no bit of the result depends on it", is_automatic ? "parallel.strategy = \"auto\": " : "",
      communicator.size(), communicator.size() == 1 ? "" : "s", decision.reason);
  return decision;
}

/// Returns the node's switches, if nodes below one switch count as a domain that may be lost as a whole.
std::string failure_domain(const config::Job& job, const comm::Communicator& communicator) {
  if (job.recipe.checkpoint.failure_domain != checkpoint::FailureDomain::network_switch) return "";
  auto domain = slurm::switches_of_node();
  if (domain.empty())
    log(Severity::warning, "Slurm has no switch for {}: the node counts as a failure domain of its own",
        communicator.host(communicator.rank()));
  return domain;
}

/// Trains on rank 0, which keeps the records of the run.
train::Outcome run_first(const config::Job& job, train::Setting setting,
                         const std::optional<forecast::Decision>& decision, comm::Communicator& communicator,
                         WorkerSignals& signals, observe::RunFolder& folder) {
  setting.failures = observe::read_failures(job.run_dir);
  setting.measured = observe::read_measured_times(job.run_dir);
  observe::Progress progress(stderr);
  if (decision)
    observe::Journal(job.run_dir)
        .append(records::ProductChosen{communicator.size(), decision->product, decision->reason});
  Audience audience(folder, progress, signals.beats.get());
  FirstWorkerHost host(signals, communicator, job);
  return train::run(job.recipe, setting, host, communicator, audience);
}

/// `records`: made on rank 0, for whoever catches an error.
train::Outcome run_rank(config::Job job, const Resume& resume, comm::Communicator& communicator, WorkerSignals& signals,
                        std::optional<observe::RunFolder>& records) {
  check_same_job(job, communicator);
  job.recipe.kernels.device = place_on_host(communicator);
  log(Severity::debug, "device {}: this is the rank's place on its host", job.recipe.kernels.device);
  std::optional<observe::HealthLog> health;  // an agent keeps one for its node
  if (!signals.beats && job.recipe.kernels.device == 0)
    health.emplace(job.run_dir, slurm::name_of_node(), most_bytes(job.observe));
  auto setting = make_setting(job);
  if (communicator.rank() == Rank(0)) records.emplace(job.run_dir, setting.owner.restart, job.observe);
  const auto decision = decide(job, communicator);
  if (decision) setting.stage_costs = decision->stage_costs;
  if (resume.no_snapshots) setting.snapshots = checkpoint::SnapshotUse::none;
  if (resume.below) setting.resume_below = Step(*resume.below);
  setting.failure_domain = failure_domain(job, communicator);
  if (records) return run_first(job, std::move(setting), decision, communicator, signals, *records);
  records::Observer silent;
  WorkerHost host(signals, communicator);
  return train::run(job.recipe, setting, host, communicator, silent);
}

/// Collective. A rank that lacks something reports it: the others hear from connected ranks only.
std::unique_ptr<comm::Communicator> connect(world::World& world, const comm::Options& options) try {
  return comm::Communicator::connect(world, options);
} catch (const std::exception& error) {
  if (is_shortage(error)) fail(world.rank(), error, Speakers::this_rank);
  throw;
}
}  // namespace

void start_worker_log(const config::Job& job, Rank rank) {
  show_times_in_job_log();
  LogOptions options;
  options.level = severity_from(job.observe.level);
  options.console = rank.value == 0;
  options.host = slurm::name_of_node();  // several nodes may have one host name
  options.rank = rank.value;
  options.file = log_of_node(job.run_dir);
  start_logging(options);
  config::log_warnings(job);
  std::istringstream keys(config::to_toml(job));
  for (std::string line; std::getline(keys, line);)
    if (!line.empty()) log(Severity::debug, "job file with overrides: {}", line);
}

train::Outcome run_connected(const config::Job& job, const Resume& resume, world::World& world,
                             WorkerSignals& signals) {
  require_descriptors(world.size());
  enter_phase(RankPhase::connect);
  auto communicator = connect(world, job.comm);
  log(Severity::debug, "rank {} of {} by {}, {}", communicator->rank(), communicator->size(), world.description(),
      communicator->description());
  std::optional<observe::RunFolder> records;
  try {
    auto outcome = run_rank(job, resume, *communicator, signals, records);
    enter_phase(RankPhase::end);
    communicator->close();
    return outcome;
  } catch (const std::exception& error) {
    signals.watch.end();  // from now on a signal must not hide the cause
    communicator->abort(message_of(error), exit_code_of(error));
    // A rank that was starting left at once, on a signal that this one got too, just as it began its first step.
    if (signals.looks < 2 && !gone(error).empty())
      if (const auto& reason = signals.stop.poll()) {
        log_nothing_to_save(*reason);
        throw Ended(static_cast<int>(ExitCode::requeue));
      }
    if (records) records->failed(error);
    throw;
  }
}

}  // namespace distdl::app
