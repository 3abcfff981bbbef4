// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <sstream>

#include <unistd.h>

#include <distdl/agent/beats.hpp>
#include <distdl/agent/cpu_binding.hpp>
#include <distdl/app/cli/commands.hpp>
#include <distdl/app/cli/job_arguments.hpp>
#include <distdl/app/plan/run_forecast.hpp>
#include <distdl/app/ranks/local_ranks.hpp>
#include <distdl/app/runs/job_log.hpp>
#include <distdl/base/activity.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/process_start.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/forecast/automatic.hpp>
#include <distdl/launch/job_end.hpp>
#include <distdl/observe/health/failure_examples.hpp>
#include <distdl/observe/health/failure_watch.hpp>
#include <distdl/observe/health/health_log.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/observe/progress_bar.hpp>
#include <distdl/observe/run/requests.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/slurm/allocation.hpp>
#include <distdl/slurm/job_limits.hpp>
#include <distdl/train/memory.hpp>
#include <distdl/train/run.hpp>
#include <distdl/train/stop_signals.hpp>
#include <distdl/world/make_world.hpp>

namespace distdl::app {
namespace {
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

/// All ranks must have read the same job, or the run would be nonsense without anyone noticing.
void check_same_job(const config::Job& job, comm::Communicator& communicator) {
  auto all = communicator.all_gather_strings(config::to_toml(job));
  for (std::size_t r = 1; r < all.size(); ++r)
    require(all[r] == all[0],
            "rank {} ({}) has other values in the job file than rank 0 ({}); all nodes must have the same file", r,
            communicator.host(Rank(static_cast<int>(r))), communicator.host(Rank(0)));
}

/// A rank's signals, and the watch over them until it trains.
struct WorkerSignals {
  train::StopSignals stop;
  train::StartWatch watch{stop, [](const std::string& reason) {
                            log_nothing_to_save(reason);
                            ::_exit(static_cast<int>(ExitCode::requeue));
                          }};
  int looks = 0;  ///< for a reason to stop: one before each step
  std::unique_ptr<agent::Beats> beats = agent::Beats::from_environment();

  static void log_nothing_to_save(const std::string& reason) {
    log(Severity::info, "{} while this rank was starting: there was nothing to save", reason);
  }
};

/// Rank 0's records go to the run folder, then to the progress bar, and the agent hears how far the run is.
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

train::Setting make_setting(const config::Job& job, WorkerSignals& signals) {
  train::Setting setting;
  setting.checkpoints = std::filesystem::path(job.run_dir) / "checkpoints";
  const auto allocation = slurm::allocation_by_variables();
  setting.owner = {allocation ? allocation->job : "local", allocation ? allocation->restart : 0, job.comm.generation,
                   ""};
  setting.owner.launch = env("DISTDL_LAUNCH").value_or("");
  setting.node = slurm::name_of_node();
  setting.devices_per_rank = job.devices_per_rank;
  setting.bit_flip = train::bit_flip_from(env("DISTDL_FLIP_BIT"));
  if (setting.bit_flip) log(Severity::warning, "DISTDL_FLIP_BIT: a bit will be flipped on purpose");
  if (const auto steps = train::traced_steps_or_off(job.observe.trace, "log.trace"))
    setting.trace = train::TraceSetting{resolved(job.run_dir) / "trace", *steps};
  setting.limits = slurm::limits_from(&env);
  if (!setting.limits.end) setting.limits.end = slurm::end_of_job_by_variable();
  setting.stop_requested = [&signals] {
    signals.watch.end();
    ++signals.looks;
    return signals.stop.poll();
  };
  setting.was_suspended = [&signals] { return signals.stop.was_suspended(); };
  setting.stop_is_pending = [&signals] { return signals.stop.poll().has_value(); };
  return setting;
}

/// Rank 0 looks for the files STOP and SAVE, for all.
void heed_requests(train::Setting& setting, observe::FileRequests& requests) {
  setting.save_requested = [&requests] { return requests.save(); };
  setting.stop_requested = [&requests, by_signal = setting.stop_requested] {
    const auto reason = by_signal();
    return reason ? reason : requests.stop();
  };
}

/// Figures that cannot be read do not end a run: it does without them.
double known_peak(const std::string& backend, const comm::Communicator& communicator) try {
  const auto ranks = communicator.ranks_on_host_of(communicator.rank()).size();
  return forecast::known_peak(backend, static_cast<int>(ranks));
} catch (const ConfigError& error) {
  log(communicator.rank() == Rank(0) ? Severity::warning : Severity::debug, "{}; until then there is no MFU",
      error.what());
  return 0;
}

/// Where to resume from.
struct Resume {
  bool no_snapshots = false;
  std::optional<std::int64_t> below;  ///< step
};

/// Figures that cannot be read do not end a run: it chooses without them.
void add_figures_if_any(forecast::Machine& machine, const config::Job& job) try {
  add_figures(machine, job);
} catch (const ConfigError& error) {
  log(Severity::warning, "{}; until it is written anew, nothing counts as measured", error.what());
}

/// Collective: what parallel.strategy = "auto" means for these ranks, and the stages of pipelines; nothing if the job
/// has neither.
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

struct WorkerArguments {
  JobArguments job;
  Resume resume;
};

/// `records`: made on rank 0, for whoever catches an error.
train::Outcome run_rank(config::Job job, const Resume& resume, comm::Communicator& communicator, WorkerSignals& signals,
                        std::optional<observe::RunFolder>& records) {
  check_same_job(job, communicator);
  job.recipe.kernels.device = place_on_host(communicator);
  log(Severity::debug, "device {}: this is the rank's place on its host", job.recipe.kernels.device);
  std::optional<observe::HealthLog> health;  // an agent keeps one for its node
  if (!signals.beats && job.recipe.kernels.device == 0)
    health.emplace(job.run_dir, slurm::name_of_node(), most_bytes(job.observe));
  auto setting = make_setting(job, signals);
  if (communicator.rank() == Rank(0)) records.emplace(job.run_dir, setting.owner.restart, job.observe);
  const auto decision = decide(job, communicator);
  if (decision) setting.stage_costs = decision->stage_costs;
  setting.peak_flops = [&communicator](const std::string& backend) { return known_peak(backend, communicator); };
  if (resume.no_snapshots) setting.snapshots = checkpoint::SnapshotUse::none;
  if (resume.below) setting.resume_below = Step(*resume.below);
  if (job.recipe.checkpoint.failure_domain == checkpoint::FailureDomain::network_switch) {
    setting.failure_domain = slurm::switches_of_node();
    if (setting.failure_domain.empty())
      log(Severity::warning, "Slurm has no switch for {}: the node counts as a failure domain of its own",
          communicator.host(communicator.rank()));
  }
  records::Observer silent;
  if (communicator.rank().value != 0) return train::run(job.recipe, setting, communicator, silent);
  setting.recorded_loss = [folder = job.run_dir](Step step) { return observe::read_loss_after(folder, step); };
  setting.failures = observe::read_failures(job.run_dir);
  setting.measured = observe::read_measured_times(job.run_dir);
  if (const auto allocation = slurm::allocation_by_variables())
    setting.end_of_job = [folder = job.run_dir, mine = *allocation] { return launch::read_end(folder, mine); };
  observe::Progress progress(stderr);
  observe::RunFolder& folder = *records;
  if (decision)
    observe::Journal(job.run_dir)
        .append(records::ProductChosen{communicator.size(), decision->product, decision->reason});
  Audience audience(folder, progress, signals.beats.get());
  observe::FileRequests requests(job.run_dir);
  heed_requests(setting, requests);
  std::optional<observe::FailureWatch> failures;
  if (!job.agent.failure_predictor.empty()) {
    failures.emplace(job.run_dir, observe::read_predictor(job.agent.failure_predictor));
    failures->start();
    setting.save_requested = [&requests, &failures] { return requests.save() || failures->wants_save(); };
  }
  return train::run(job.recipe, setting, communicator, audience);
}

/// Ranks that are gone without a word, as far as `error` knows.
std::vector<Rank> gone(const std::exception& error) {
  if (const auto* missing = dynamic_cast<const world::RanksMissing*>(&error)) return missing->ranks();
  const auto* lost = dynamic_cast<const comm::PeerLost*>(&error);
  if (lost && lost->exit_code() == ExitCode::peer_lost) return {lost->rank()};
  return {};
}

/// Whether this rank says on the console why the run failed: the lowest that is left. The others write to their log
/// only, or the user would read the same sentence from each of a thousand ranks.
bool speaks(Rank self, const std::exception& error) {
  auto ranks = gone(error);
  for (Rank lower(0); lower < self; ++lower.value)
    if (std::find(ranks.begin(), ranks.end(), lower) == ranks.end()) return false;
  return true;
}

/// A rank that hears of wrong bits in another one has none itself: agents leave out the node of each that says so.
int own_exit_code(const std::exception& error) {
  const auto code = exit_code_of(error);
  const bool is_heard = dynamic_cast<const comm::PeerLost*>(&error) != nullptr;
  return static_cast<int>(is_heard && code == ExitCode::corruption ? ExitCode::peer_lost : code);
}

[[noreturn]] void fail(Rank self, const std::exception& error) {
  log(Severity::error, "{}", message_of(error));  // rank 0's log goes to the console too
  if (self != Rank(0) && speaks(self, error))
    Console(STDERR_FILENO).line(fmt::format("error rank={} {}", self, printable(message_of(error))));
  throw Ended(own_exit_code(error));
}

train::Outcome run_connected(const config::Job& job, const Resume& resume, world::World& world,
                             WorkerSignals& signals) {
  require_descriptors(world.size());
  enter_phase(RankPhase::connect);
  auto communicator = comm::Communicator::connect(world, job.comm);
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
        WorkerSignals::log_nothing_to_save(*reason);
        throw Ended(static_cast<int>(ExitCode::requeue));
      }
    if (records) records->failed(error);
    throw;
  }
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
  auto world = world::make_world(std::filesystem::path(job.run_dir) / "launches");
  start_worker_log(job, world->rank());
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
  arguments->job.add_to(command);
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
