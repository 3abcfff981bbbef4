// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstring>
#include <utility>

#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/restart.hpp>
#include <distdl/launch/job_end.hpp>
#include <distdl/launch/launch.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/launch/progress.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/launch/supervisor.hpp>
#include <distdl/launch/surviving_nodes.hpp>

namespace distdl::launch {
namespace {
using namespace std::chrono_literals;

constexpr double kLongestGrace = 86400;
constexpr std::size_t kIdBytes = 8;

Milliseconds milliseconds(double seconds) {
  return std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(seconds));
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
  /// The pause before the next launch; zero for the first relaunch.
  Milliseconds pause() { return used_ > 1 ? pauses_.next() : 0ms; }

 private:
  static constexpr double kLongestPause = 120;

  const Options& options_;
  std::int64_t left_ = 0, used_ = 0, lost_ = 0;
  BackOff pauses_{0ms, 0ms};
};

/// True for exit codes of a rank. Others are srun's own: 1, or the last 8 bits of an error number of Slurm, as 233 for
/// 1001, "Communication connection failure"; or the system's error number where the program cannot be run, as 116,
/// "stale file handle".
bool is_of_a_rank(int code) {
  constexpr int kLastSignal = 64;
  if (code > 128) return code <= 128 + kLastSignal;
  return entry_of(code) != nullptr;
}

/// Files that each node must see for a rank to start there: the program and the run folder. Empty before a launch has
/// begun to train, because the nodes may never have seen them.
std::vector<std::string> files_of(const LaunchSpec& spec, const Progress& progress) {
  if (!progress.has_begun()) return {};
  return {spec.worker.front(), spec.checkpoints.parent_path().string()};
}

bool is_superseded(const LaunchSpec& spec) {
  if (!spec.lock || !spec.lock->check()) return false;
  log(Severity::error, "another start has taken over the run folder \"{}\": this one ends",
      spec.checkpoints.parent_path().string());
  return true;
}

/// True if the code is srun's own. A node that has not mounted the program's file system (yet) ends its ranks with "no
/// such file", which is 2, as ExitCode::corrupt.
bool is_of_srun(int code, const LaunchSpec& spec, const Progress& progress, const std::vector<std::string>& nodes,
                const Options& options) {
  return !is_of_a_rank(code) || (code == static_cast<int>(ExitCode::corrupt) &&
                                 one_lacks(*spec.allocation, files_of(spec, progress), nodes, options));
}

/// The cause of the end for messages: the name of the exit code, or the signal.
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
  next.id = random_hex(kIdBytes);
  if (spec.events.began) spec.events.began(next.ranks, next.allocation ? next.allocation->only : nodes, next.id);
  LaunchResult result = launch(next, options, signals);
  std::string cause = result.cause.empty() ? cause_of(result.code) : result.cause;
  if (spec.allocation && is_of_srun(result.code, spec, progress, nodes, options)) {
    log(Severity::warning, "srun itself failed, with code {}", result.code);
    if (result.cause.empty()) cause = fmt::format("srun failed with code {}", result.code);
    result.code = static_cast<int>(ExitCode::scheduler);
  }
  if (result.lost_node) log(Severity::warning, "{}", cause);
  if (spec.events.ended) spec.events.ended(result.code, cause, result.told_to_stop);
  return result;
}

/// Without having finished; `state`: of what is saved, for people.
void leave(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals,
           const std::string& state) {
  const bool requeues = spec.allocation && options.requeue;
  log(Severity::info, "stopped{}{}", state, requeues ? "" : "; run the same command again to continue");
  if (!requeues) return;
  if (requeue_job(*spec.allocation, options, signals) && spec.events.requeued) spec.events.requeued();
}
class Supervision {
 public:
  Supervision(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals)
      : spec_(spec), options_(options), signals_(signals), tries_(options), progress_(spec) {}

  int run() {
    for (Milliseconds pause{0};; pause = spec_.allocation ? tries_.pause() : 0ms) {
      if (signals_.wait_for_stop(pause)) return stop();
      if (ends_for_good()) return stop_for_good("; " + progress_.restart_summary());
      if (is_superseded(spec_)) return static_cast<int>(ExitCode::superseded);
      const LaunchResult result = launch_next(spec_, progress_, next_.nodes, options_, signals_);
      if (const auto code = end_after(result)) return *code;
      log(Severity::warning,
          "the ranks ended with code {}; relaunching ({} more times if the run makes no progress); {}", result.code,
          tries_.left(), progress_.restart_summary());
    }
  }

 private:
  int stop() {
    leave(spec_, options_, signals_, "; " + progress_.restart_summary());
    return static_cast<int>(ExitCode::requeue);
  }
  bool ends_for_good() const { return spec_.ends_for_good && spec_.ends_for_good(); }
  static int stop_for_good(const std::string& state) {
    log(Severity::info, "stopped for good, as a user asked for it{}", state);
    return static_cast<int>(ExitCode::stopped);
  }
  /// The state that a later start goes on from, for people.
  std::string state_after(const LaunchResult& result) const {
    if (spec_.runs_program) return "; the program goes on from what it has saved";
    return result.is_saved ? " with everything saved" : "; " + progress_.restart_summary();
  }
  /// The code to end with, or nothing if another launch is to follow.
  std::optional<int> end_after(const LaunchResult& result) {
    const int code = result.code;
    if (code != 0 && is_superseded(spec_)) return static_cast<int>(ExitCode::superseded);
    if (progress_.is_made()) tries_.renew();
    RestartEvidence evidence{.has_trained = progress_.has_begun(), .told_to_stop = result.told_to_stop};
    const RestartDecision decision = decide_restart(code, evidence);
    if (decision == RestartDecision::finished || decision == RestartDecision::give_up) return code;
    if (decision == RestartDecision::resume_later) {
      if (code != static_cast<int>(ExitCode::requeue))  // the signal may have met ranks that were just starting
        log(Severity::warning, "the ranks ended with code {} when asked to stop", code);
      auto state = state_after(result);
      if (ends_for_good()) return stop_for_good(state);
      if (spec_.allocation && code == static_cast<int>(ExitCode::requeue))
        state += "; this was planned, and srun's \"error: ... Exited with exit code 75\" means no more than that";
      leave(spec_, options_, signals_, state);
      return code;
    }
    const auto files = spec_.allocation ? files_of(spec_, progress_) : std::vector<std::string>();
    if (spec_.allocation) next_ = surviving_nodes(spec_, files, next_.nodes, result.silent, options_, signals_);
    if (spec_.allocation && spec_.wrong_nodes)
      next_ = without_wrong(next_, spec_, files, spec_.wrong_nodes(), options_);
    next_.lost = next_.lost || result.lost_node;
    if (next_.lost && spec_.events.lost_node) spec_.events.lost_node();
    if (next_.decision == NextNodes::Decision::end) return code;
    if (next_.decision == NextNodes::Decision::requeue) return stop();
    evidence.is_stuck = !tries_.use(next_.lost);
    if (decide_restart(code, evidence) == RestartDecision::relaunch) return std::nullopt;
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

void check(const Options& options) {
  require(options.relaunches >= 0, "run.relaunches is {}, but must not be negative", options.relaunches);
  require(options.grace_seconds >= 0 && options.grace_seconds <= kLongestGrace,
          "run.grace_seconds is {}, but must be between 0 and {}", options.grace_seconds, kLongestGrace);
  require(options.pause_seconds >= 0 && options.pause_seconds <= kLongestGrace,
          "run.pause_seconds is {}, but must be between 0 and {}", options.pause_seconds, kLongestGrace);
  require(options.probe_seconds > 0 && options.probe_seconds <= kLongestGrace,
          "run.probe_seconds is {}, but must be above 0 and at most {}", options.probe_seconds, kLongestGrace);
  require(options.preflight_seconds > 0 && options.preflight_seconds <= kLongestGrace,
          "run.preflight_seconds is {}, but must be above 0 and at most {}", options.preflight_seconds, kLongestGrace);
  require(options.bad_node_hours >= 0 && options.bad_node_hours <= kLongestGrace,
          "run.bad_node_hours is {}, but must be between 0 and {}", options.bad_node_hours, kLongestGrace);
  require(options.slow_node_share >= 0 && options.slow_node_share < 1,
          "run.slow_node_share is {}, but must be at least 0 and below 1", options.slow_node_share);
  for (const auto& [name, minutes] :
       {std::pair("node", options.node_minutes), std::pair("scheduler", options.scheduler_minutes)})
    require(minutes >= 0 && minutes <= kLongestGrace, "run.{}_minutes is {}, but must be between 0 and {}", name,
            minutes, kLongestGrace);
}

int supervise(const LaunchSpec& spec, const Options& options) {
  agent::SupervisorSignals signals;
  return supervise(spec, options, signals);
}

int supervise(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals) {
  check(options);
  return Supervision(spec, options, signals).run();
}

}  // namespace distdl::launch
