// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstring>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/agent/agent.hpp>
#include <distdl/agent/processes.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>
#include <distdl/checkpoint/summary.hpp>
#include <distdl/launch/job_end.hpp>
#include <distdl/launch/rendezvous.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/launch/step_watch.hpp>
#include <distdl/launch/supervisor.hpp>
#include <distdl/launch/surviving_nodes.hpp>

namespace distdl::launch {
namespace {
using namespace std::chrono_literals;

constexpr double kLongestGrace = 86400;
/// So many launches in a row without progress may break off each at another step before that is the run's own fault.
constexpr int kMostElsewhere = 120;

Milliseconds milliseconds(double seconds) {
  return std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(seconds));
}

/// Newest committed step, or newest one below `below`, or -1. Throws StorageError.
std::int64_t newest_step(const std::filesystem::path& checkpoints, std::optional<Step> below = {}) {
  std::error_code error;  // what is there but cannot be read, list() reports
  if (!std::filesystem::exists(checkpoints, error) && !error) return -1;
  auto all = checkpoint::list(checkpoints);
  std::erase_if(all, [&](const checkpoint::Summary& one) { return below && one.step >= *below; });
  return all.empty() ? -1 : all.back().step.value;
}

/// As newest_step(). Between launches a file system that fails for a moment ends no run: `otherwise` then.
std::int64_t newest_step_or(std::int64_t otherwise, const std::filesystem::path& checkpoints,
                            std::optional<Step> below = {}) try {
  return newest_step(checkpoints, below);
} catch (const StorageError& error) {
  log(Severity::warning, "{}", error.what());
  return otherwise;
}

/// Whether a run comes on, as seen between its launches.
class Progress {
 public:
  explicit Progress(const LaunchSpec& spec)
      : spec_(spec), checkpoint_(newest_step(spec.checkpoints)), starts_(starts().size()), last_done_(last_done()) {}

  /// After a launch: whether the next one is no further try at what this one failed in.
  bool is_made() {
    const bool further = is_further();
    elsewhere_ = further ? 0 : elsewhere_ + 1;
    return breaks_off_elsewhere() || further;
  }
  /// Whether a launch of this job, or an earlier job of the run, has begun to train.
  bool has_begun() const { return is_begun_ || (spec_.allocation && starts_ > 0); }
  /// The next launch. What two launches in a row began with and came no further, it leaves out.
  LaunchSpec next_launch() const {
    LaunchSpec next = spec_;
    if (!is_begun_) next.worker.insert(next.worker.end(), next.at_first.begin(), next.at_first.end());
    if (below_ && !next.below.empty()) next.worker.insert(next.worker.end(), {next.below, fmt::format("{}", *below_)});
    return next;
  }
  /// With what it begins, for people.
  std::string outlook() const {
    if (checkpoint_ < 0) return "there is no checkpoint yet";
    if (below_ && !spec_.below.empty())
      return fmt::format("two starts from step {} have failed, so the next one starts from the checkpoint of step {}",
                         *below_, newest_step_or(-1, spec_.checkpoints, below_));
    return fmt::format("the newest checkpoint is that of step {}", checkpoint_);
  }

 private:
  /// Whether it left a new checkpoint, or began further on than those before it. How far the snapshots of a launch go
  /// is not known until the next one has found them.
  bool is_further() {
    const std::int64_t before = std::exchange(checkpoint_, newest_step_or(checkpoint_, spec_.checkpoints));
    bool made = checkpoint_ > before;
    const auto all = starts();
    for (; starts_ < all.size(); ++starts_) {
      made = made || (is_begun_ && all[starts_] > furthest_);
      furthest_ = std::max(furthest_, all[starts_]);
      in_a_row_ = all[starts_] == last_ ? in_a_row_ + 1 : 1;
      last_ = all[starts_];
      is_begun_ = true;
    }
    if (checkpoint_ > before) in_a_row_ = 0;
    if (made) below_.reset();
    const bool is_poisoned = last_ && spec_.is_poisoned && spec_.is_poisoned();
    if ((in_a_row_ >= 2 || is_poisoned) && newest_step_or(-1, spec_.checkpoints, last_) >= 0) below_ = last_;
    return made;
  }
  /// Whether it trained, and its last step is not that of the launch before. Training repeats itself exactly, so what
  /// breaks off elsewhere each time comes from outside.
  bool breaks_off_elsewhere() {
    const auto before = std::exchange(last_done_, last_done());
    return last_done_ != before && elsewhere_ <= kMostElsewhere;
  }
  std::vector<Step> starts() const { return spec_.starts ? spec_.starts() : std::vector<Step>(); }
  std::optional<Step> last_done() const { return spec_.last_done ? spec_.last_done() : std::nullopt; }

  const LaunchSpec& spec_;
  std::int64_t checkpoint_;
  std::size_t starts_;  ///< known, also from before
  bool is_begun_ = false;
  Step furthest_;             ///< at which a launch has begun
  std::optional<Step> last_;  ///< at which the last launch began
  int in_a_row_ = 0;          ///< launches that began there, and left no new checkpoint
  std::optional<Step> below_;
  std::optional<Step> last_done_;  ///< by the last launch that trained
  int elsewhere_ = 0;              ///< launches in a row that came no further
};

/// How one launch ended.
struct LaunchResult {
  int code = 0;
  bool told_to_stop = false;  ///< a signal came in while it ran
  bool is_saved = false;      ///< the ranks themselves say so
};

/// Of the srun of a launch.
std::string step_name(const std::string& launch_id) {
  return "distdl-" + launch_id;
}

/// One launch from start to end.
class Launch {
 public:
  Launch(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals)
      : options_(options),
        signals_(signals),
        lock_(spec.lock),
        rendezvous_(spec.allocation ? std::optional<Rendezvous>() : std::optional<Rendezvous>(std::in_place)),
        processes_(processes_of(spec, options, rendezvous_ ? rendezvous_->folder() : "", id_)),
        under_srun_(spec.allocation.has_value()) {
    if (!spec.allocation) return;
    if (spec.agents) agents_of_ = spec.checkpoints.parent_path();
    step_.emplace(*spec.allocation, step_name(id_), milliseconds(options.step_seconds));
    end_.emplace(*spec.allocation, spec.checkpoints.parent_path(), spec.limits.end);
  }

  LaunchResult watch() {
    while (processes_.reap() > 0) {
      if (auto number = signals_.wait(wait_time()); number && *number != SIGCHLD) stop(*number);
      if (stop_again_at_ && stop_again_at_->expired()) stop_srun();
      if (lock_ && lock_->is_lost() && !kill_at_) {
        processes_.signal(SIGTERM);
        kill_after_grace();
      }
      if (processes_.failed() && !under_srun_ && !kill_at_) kill_after_grace();
      if (kill_at_ && kill_at_->expired()) processes_.kill();
      if (step_ && step_->is_over()) end_srun();
      if (end_) end_->poll();
    }
    constexpr int kSaved = static_cast<int>(ExitCode::requeue);
    const int code = code_of_launch();
    const bool told_to_stop = told_to_stop_ || is_stop_signal(code);
    const bool is_srun_waiting = under_srun_ && code == 1;  // for a step that it could not make yet
    const bool is_stopped = is_stop_signal(code) || (told_to_stop && is_srun_waiting);
    return {is_stopped ? kSaved : code, told_to_stop, code == kSaved};
  }

 private:
  /// srun fails where a node was lost, although the run has ended well on the others: agents say how it has.
  int code_of_launch() const {
    if (agents_of_.empty()) return processes_.code();
    const auto agreed = agent::agreed_code(agents_of_, id_);
    checkpoint::remove_tree(checkpoint::real_file_system(), agent::launch_folder(agents_of_, id_));
    return agreed.value_or(processes_.code());
  }
  void kill_after_grace() {
    kill_at_ = Deadline::after(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.grace_seconds)));
  }
  void end_srun() {
    log(Severity::warning, "{}", "srun waits for a step that Slurm has ended: ending srun");
    processes_.kill();
    step_.reset();
  }
  Milliseconds wait_time() const {
    if (!kill_at_) return 1000ms;
    return std::clamp(std::chrono::ceil<Milliseconds>(kill_at_->remaining()), 10ms, 1000ms);
  }
  /// A rank that dies of such a signal did not listen yet: it was starting, and nothing is lost. Whoever sent it, as
  /// Slurm to all ranks at a preemption, asks to stop.
  static bool is_stop_signal(int code) {
    return std::ranges::count(std::array{SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}, code - 128) > 0;
  }
  /// Every signal means "save and stop".
  void stop(int number) {
    if (told_to_stop_ && number == SIGINT && !under_srun_) {
      log(Severity::warning, "{}", "second SIGINT: ending the ranks at once; the last checkpoint is kept");
      return processes_.kill();
    }
    log(Severity::info, "signal SIG{}: asking the ranks to save and stop", sigabbrev_np(number));
    if (under_srun_)
      stop_srun();
    else
      processes_.signal(SIGTERM);
    told_to_stop_ = true;
  }
  /// srun hands USR1 on to its tasks, where INT and TERM would make it end them. It forgets a signal that comes before
  /// its tasks run, hence again and again.
  void stop_srun() {
    processes_.signal(SIGUSR1);
    stop_again_at_ = Deadline::after(2s);
  }

  const Options& options_;
  agent::SupervisorSignals& signals_;
  const FolderLock* lock_;
  std::string id_ = random_hex(8);
  std::optional<Rendezvous> rendezvous_;  ///< of local ranks
  agent::Processes processes_;
  bool under_srun_;
  std::filesystem::path agents_of_;  ///< the run folder, if agents start the ranks
  bool told_to_stop_ = false;
  std::optional<StepWatch> step_;
  std::optional<EndWatch> end_;
  std::optional<Deadline> kill_at_;
  std::optional<Deadline> stop_again_at_;
};

/// One that cannot begin, as the system refuses a process, has failed like any other.
LaunchResult launch(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals) try {
  return Launch(spec, options, signals).watch();
} catch (const SchedulerError& error) {
  log(Severity::error, "{}", error.what());
  return {static_cast<int>(error.exit_code())};
}

/// How often a run that comes no further is launched again, and when. Not all at once: a node that was cut off ends
/// what it holds of the job's start before, for some seconds, and the ranks of this one with it.
class Tries {
 public:
  explicit Tries(const Options& options) : options_(options) { renew(); }
  void renew() {
    left_ = options_.relaunches;
    used_ = lost_ = 0;
    pauses_ = BackOff(milliseconds(options_.pause_seconds), milliseconds(kLongestPause));
  }
  /// After a launch; `lost`: it lost a node, which uses up no try as long as that does not go on for ever.
  bool use(bool lost) {
    ++used_;
    return lost ? ++lost_ <= options_.lost_launches : left_-- > 0;
  }
  std::int64_t left() const { return left_; }
  std::int64_t relaunches() const { return used_ - 1; }  ///< since the last progress
  /// Before the next launch: none before the first one again.
  Milliseconds pause() { return used_ > 1 ? pauses_.next() : 0ms; }

 private:
  static constexpr double kLongestPause = 120;

  const Options& options_;
  std::int64_t left_ = 0, used_ = 0, lost_ = 0;
  BackOff pauses_{0ms, 0ms};
};

/// Codes that a rank ends with. Others are srun's own: 1, or the last 8 bits of an error number of Slurm, as 233 for
/// 1001, "Communication connection failure"; or the system's error number where the program cannot be run, as 116,
/// "stale file handle".
bool is_of_a_rank(int code) {
  constexpr int kLastSignal = 64;
  if (code > 128) return code <= 128 + kLastSignal;
  return entry_of(code) != nullptr;
}

/// What each node must see for a rank to start there. Before a launch has begun to train, they may never have seen it.
std::vector<std::string> files_of(const LaunchSpec& spec, const Progress& progress) {
  if (!progress.has_begun()) return {};
  return {spec.worker.front(), spec.checkpoints.parent_path().string()};
}

/// The share of "8" or "a100:8" that `some` of `all` nodes have; a list of several types stays as it is.
std::string share_of_gpus(const std::string& gpus, int some, int all) {
  const auto number = gpus.rfind(':') + 1;  // 0 if there is no type
  std::int64_t count = 0;
  auto [end, error] = std::from_chars(gpus.data() + number, gpus.data() + gpus.size(), count);
  if (error != std::errc{} || end != gpus.data() + gpus.size() || gpus.find(',') != std::string::npos) return gpus;
  return fmt::format("{}{}", gpus.substr(0, number), std::max<std::int64_t>(1, count * some / all));
}

/// `spec` on these nodes only, with as many ranks on each as before, and no more GPUs in all than they have.
LaunchSpec on_nodes(LaunchSpec spec, const std::vector<std::string>& nodes) {
  if (nodes.empty()) return spec;
  auto& job = *spec.allocation;
  const int count = static_cast<int>(nodes.size());
  spec.ranks = std::max(1, static_cast<int>(static_cast<std::int64_t>(spec.ranks) * count / job.nodes));
  if (!job.gpus.empty()) job.gpus = share_of_gpus(job.gpus, count, job.nodes);
  job.nodes = count;
  job.only = nodes;
  return spec;
}

bool is_superseded(const LaunchSpec& spec) {
  if (!spec.lock || !spec.lock->check()) return false;
  log(Severity::error, "another start has taken over the run folder \"{}\": this one ends",
      spec.checkpoints.parent_path().string());
  return true;
}

/// A node that has not mounted the program's file system (yet) ends its ranks with "no such file", which is 2 too.
bool is_of_srun(int code, const LaunchSpec& spec, const Progress& progress, const std::vector<std::string>& nodes,
                const Options& options) {
  return !is_of_a_rank(code) || (code == static_cast<int>(ExitCode::corrupt) &&
                                 one_lacks(*spec.allocation, files_of(spec, progress), nodes, options));
}

/// For people.
std::string cause_of(int code) {
  const ExitCodeEntry* entry = entry_of(code);
  if (entry) return std::string(entry->name);
  const char* signal = code > 128 ? sigabbrev_np(code - 128) : nullptr;
  return signal ? fmt::format("killed by SIG{}", signal) : fmt::format("ended with code {}", code);
}

LaunchResult launch_next(const LaunchSpec& spec, const Progress& progress, const std::vector<std::string>& nodes,
                         const Options& options, agent::SupervisorSignals& signals) {
  LaunchSpec next = on_nodes(progress.next_launch(), nodes);
  next.limits = limits_of_job(spec.allocation);
  if (spec.events.began) spec.events.began(next.ranks, nodes);
  LaunchResult result = launch(next, options, signals);
  std::string cause = cause_of(result.code);
  if (spec.allocation && is_of_srun(result.code, spec, progress, nodes, options)) {
    log(Severity::warning, "srun itself failed, with code {}", result.code);
    cause = fmt::format("srun failed with code {}", result.code);
    result.code = static_cast<int>(ExitCode::scheduler);
  }
  if (spec.events.ended) spec.events.ended(result.code, cause, result.told_to_stop);
  return result;
}

RestartDecision restart_decision(int code, const Progress& progress) {
  // As a disk that is full, or a file system that is away: the run has had what it needs.
  const bool can_pass =
      (code == static_cast<int>(ExitCode::storage) || code == static_cast<int>(ExitCode::incomplete)) &&
      progress.has_begun();
  return can_pass ? RestartDecision::relaunch : distdl::restart_decision(code);
}

using Words = std::vector<std::string>;

/// The tasks of the step: all ranks, which end as soon as one has ended; or an agent a node, each of which ends when
/// the run has, whatever becomes of the others.
Words tasks_of(const LaunchSpec& spec, const Options& options) {
  const auto& job = *spec.allocation;
  if (!spec.agents)
    return {fmt::format("--ntasks={}", spec.ranks), fmt::format("--cpus-per-task={}", job.cpus_per_task),
            fmt::format("--wait={:.0f}", std::ceil(std::max(1.0, options.grace_seconds)))};
  const std::int64_t on_a_node = (spec.ranks + job.nodes - 1) / job.nodes;
  return {fmt::format("--ntasks={}", job.nodes), "--ntasks-per-node=1",
          fmt::format("--cpus-per-task={}", job.cpus_per_task * on_a_node), "--no-kill", "--wait=0"};
}

Words command_of(const LaunchSpec& spec, const std::string& launch_id) {
  Words command = spec.worker;
  if (!spec.agents) return command;
  command.at(1) = "agent";
  command.insert(command.end(), {"--launch", launch_id, "--ranks", std::to_string(spec.ranks), "--min-nodes",
                                 std::to_string(spec.min_nodes)});
  return command;
}

agent::Process srun_of(const LaunchSpec& spec, const Options& options, const std::string& launch_id) {
  const auto& job = *spec.allocation;
  agent::Process srun{
      {"srun", "--job-name=" + step_name(launch_id), "--mpi=pmix", fmt::format("--nodes={}", job.nodes)}, {}};
  const auto append = [&srun](const Words& words) {
    srun.command.insert(srun.command.end(), words.begin(), words.end());
  };
  append(tasks_of(spec, options));
  append({"--kill-on-bad-exit=0", "--unbuffered",
          "--export=ALL",        // also where sbatch was told --export=NONE, which srun would repeat
          "--disable-status"});  // a SIGINT goes on to the ranks, which save; else srun only prints its status
  // What is left of a launch before, on a node that was lost, may still hold processors of the others.
  if (!job.only.empty()) {
    append({fmt::format("--nodelist={}", fmt::join(job.only, ",")), "--overlap"});
    // Else srun would ask for all that SLURM_GPUS says, also of fewer nodes.
    if (!job.gpus.empty()) srun.command.push_back("--gpus=" + job.gpus);
  }
  append(command_of(spec, launch_id));
  srun.variables = slurm::variables_of(spec.limits);
  return srun;
}

/// Without having finished; `state`: of what is saved, for people.
void leave(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals,
           const std::string& state) {
  const bool requeues = spec.allocation && options.requeue;
  log(Severity::info, "stopped{}{}", state, requeues ? "" : "; run the same command again to continue");
  if (!requeues) return;
  if (requeue_job(*spec.allocation, options, signals) && spec.events.requeued) spec.events.requeued();
}
}  // namespace

std::vector<agent::Process> processes_of(const LaunchSpec& spec, const Options& options,
                                         const std::filesystem::path& rendezvous, const std::string& launch_id) {
  if (spec.allocation) return {srun_of(spec, options, launch_id)};
  std::vector<agent::Process> processes;
  processes.reserve(static_cast<std::size_t>(spec.ranks));
  for (int rank = 0; rank < spec.ranks; ++rank) {
    processes.push_back({spec.worker,
                         {{"DISTDL_RANK", std::to_string(rank)},
                          {"DISTDL_WORLD_SIZE", std::to_string(spec.ranks)},
                          {"DISTDL_RENDEZVOUS", rendezvous.string()},
                          {"DISTDL_LAUNCH_ID", launch_id}}});
    processes.back().variables.merge(slurm::variables_of(spec.limits));
    // Nobody beyond this machine has business at their ports. comm.interface, if it is set, counts for more. Of UCX's
    // transports only tcp can use loopback.
    const bool uses_tcp = env("UCX_TLS").value_or("tcp").find("tcp") != std::string::npos;
    if (!env("UCX_NET_DEVICES") && uses_tcp) processes.back().variables["UCX_NET_DEVICES"] = "lo";
  }
  return processes;
}

void check(const Options& options) {
  require(options.relaunches >= 0, "run.relaunches is {}, but must not be negative", options.relaunches);
  require(options.grace_seconds >= 0 && options.grace_seconds <= kLongestGrace,
          "run.grace_seconds is {}, but must be between 0 and {}", options.grace_seconds, kLongestGrace);
  require(options.pause_seconds >= 0 && options.pause_seconds <= kLongestGrace,
          "run.pause_seconds is {}, but must be between 0 and {}", options.pause_seconds, kLongestGrace);
  require(options.probe_seconds > 0 && options.probe_seconds <= kLongestGrace,
          "run.probe_seconds is {}, but must be above 0 and at most {}", options.probe_seconds, kLongestGrace);
  for (const auto& [name, minutes] :
       {std::pair("node", options.node_minutes), std::pair("scheduler", options.scheduler_minutes)})
    require(minutes >= 0 && minutes <= kLongestGrace, "run.{}_minutes is {}, but must be between 0 and {}", name,
            minutes, kLongestGrace);
}

int supervise(const LaunchSpec& spec, const Options& options) {
  agent::SupervisorSignals signals;
  return supervise(spec, options, signals);
}

namespace {
class Supervision {
 public:
  Supervision(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals)
      : spec_(spec), options_(options), signals_(signals), tries_(options), progress_(spec) {}

  int run() {
    for (Milliseconds pause{0};; pause = spec_.allocation ? tries_.pause() : 0ms) {
      if (signals_.wait_for_stop(pause)) return stop();
      if (ends_for_good()) return stop_for_good("; " + progress_.outlook());
      if (is_superseded(spec_)) return static_cast<int>(ExitCode::superseded);
      const LaunchResult result = launch_next(spec_, progress_, next_.nodes, options_, signals_);
      if (const auto code = end_after(result)) return *code;
      log(Severity::warning,
          "the ranks ended with code {}; relaunching ({} more times if the run makes no progress); {}", result.code,
          tries_.left(), progress_.outlook());
    }
  }

 private:
  int stop() {
    leave(spec_, options_, signals_, "; " + progress_.outlook());
    return static_cast<int>(ExitCode::requeue);
  }
  bool ends_for_good() const { return spec_.ends_for_good && spec_.ends_for_good(); }
  static int stop_for_good(const std::string& state) {
    log(Severity::info, "stopped for good, as a user asked for it{}", state);
    return static_cast<int>(ExitCode::stopped);
  }
  /// The code to end with, or nothing if another launch is to follow.
  std::optional<int> end_after(const LaunchResult& result) {
    const int code = result.code;
    if (code != 0 && is_superseded(spec_)) return static_cast<int>(ExitCode::superseded);
    if (progress_.is_made()) tries_.renew();
    const RestartDecision decision = restart_decision(code, progress_);
    if (decision == RestartDecision::finished || decision == RestartDecision::give_up) return code;
    if (decision == RestartDecision::resume_later || result.told_to_stop) {
      if (decision == RestartDecision::relaunch)  // the signal may have met ranks that were just starting
        log(Severity::warning, "the ranks ended with code {} when asked to stop", code);
      const auto state = result.is_saved ? " with everything saved" : "; " + progress_.outlook();
      if (ends_for_good()) return stop_for_good(state);
      leave(spec_, options_, signals_, state);
      return code;
    }
    if (spec_.allocation)
      next_ = surviving_nodes(*spec_.allocation, files_of(spec_, progress_), next_.nodes, options_, signals_);
    if (next_.lost && spec_.events.lost_node) spec_.events.lost_node();
    if (next_.decision == NextNodes::Decision::end) return code;
    if (next_.decision == NextNodes::Decision::requeue) return stop();
    if (tries_.use(next_.lost)) return std::nullopt;
    log(Severity::error,
        "the ranks ended with code {}; giving up after {} relaunches without progress. The log of each rank is "
        "in \"{}\"",
        code, tries_.relaunches(), (spec_.checkpoints.parent_path() / "logs").string());
    return code;
  }

  const LaunchSpec& spec_;
  const Options& options_;
  agent::SupervisorSignals& signals_;
  Tries tries_;
  NextNodes next_;
  Progress progress_;
};
}  // namespace

int supervise(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals) {
  check(options);
  return Supervision(spec, options, signals).run();
}

}  // namespace distdl::launch
