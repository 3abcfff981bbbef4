// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <utility>

#include <distdl/agent/children.hpp>
#include <distdl/agent/rendezvous.hpp>
#include <distdl/agent/supervisor.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/store.hpp>

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;

constexpr double kLongestGrace = 86400;

/// Newest committed step, or newest one below `below`, or -1.
std::int64_t newest_step(const std::filesystem::path& checkpoints, std::optional<Step> below = {}) {
  std::error_code error;  // what is there but cannot be read, list() reports
  if (!std::filesystem::exists(checkpoints, error) && !error) return -1;
  auto all = checkpoint::list(checkpoints);
  std::erase_if(all, [&](const checkpoint::Summary& one) { return below && one.step >= *below; });
  return all.empty() ? -1 : all.back().step.value;
}

/// Whether a run comes on, as seen between its launches.
class Progress {
 public:
  explicit Progress(const Mission& mission)
      : mission_(mission), checkpoint_(newest_step(mission.checkpoints)), starts_(starts().size()) {}

  /// After a launch: whether it left a new checkpoint, or began further on than those before it. How far the snapshots
  /// of a launch go is not known until the next one has found them.
  bool is_made() {
    const std::int64_t before = std::exchange(checkpoint_, newest_step(mission_.checkpoints));
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
    if (in_a_row_ >= 2 && newest_step(mission_.checkpoints, last_) >= 0) below_ = last_;
    return made;
  }
  /// The next launch. What two launches in a row began with and came no further, it leaves out.
  Mission next_launch() const {
    Mission next = mission_;
    if (!is_begun_) next.worker.insert(next.worker.end(), next.at_first.begin(), next.at_first.end());
    if (below_ && !next.below.empty()) next.worker.insert(next.worker.end(), {next.below, fmt::format("{}", *below_)});
    return next;
  }
  /// With what it begins, for people.
  std::string outlook() const {
    if (checkpoint_ < 0) return "there is no checkpoint yet";
    if (below_ && !mission_.below.empty())
      return fmt::format("two starts from step {} have failed, so the next one goes back to the checkpoint of step {}",
                         *below_, newest_step(mission_.checkpoints, below_));
    return fmt::format("the newest checkpoint is that of step {}", checkpoint_);
  }

 private:
  std::vector<Step> starts() const { return mission_.starts ? mission_.starts() : std::vector<Step>(); }

  const Mission& mission_;
  std::int64_t checkpoint_;
  std::size_t starts_;  ///< known, also from before
  bool is_begun_ = false;
  Step furthest_;             ///< at which a launch has begun
  std::optional<Step> last_;  ///< at which the last launch began
  int in_a_row_ = 0;          ///< launches that began there, and left no new checkpoint
  std::optional<Step> below_;
};

/// How one launch ended.
struct LaunchResult {
  int code = 0;
  bool told_to_stop = false;  ///< a signal came in while it ran
};

/// One launch from start to end.
class Launch {
 public:
  Launch(const Mission& mission, const Options& options, SupervisorSignals& signals)
      : options_(options),
        signals_(signals),
        children_(children_of(mission, options, rendezvous_.folder(), rendezvous_.launch_id())),
        under_srun_(mission.allocation.has_value()) {}

  LaunchResult watch() {
    while (children_.reap() > 0) {
      if (auto number = signals_.wait(wait_time()); number && *number != SIGCHLD) stop(*number);
      if (stop_again_at_ && stop_again_at_->expired()) stop_srun();
      if (children_.failed() && !under_srun_ && !kill_at_)
        kill_at_ = Deadline::after(
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.grace_seconds)));
      if (kill_at_ && kill_at_->expired()) children_.kill();
    }
    return {children_.code(), told_to_stop_};
  }

 private:
  Milliseconds wait_time() const {
    if (!kill_at_) return 1000ms;
    return std::clamp(std::chrono::ceil<Milliseconds>(kill_at_->remaining()), 10ms, 1000ms);
  }
  /// Every signal means "save and stop".
  void stop(int number) {
    if (told_to_stop_ && number == SIGINT && !under_srun_) {
      log(Severity::warning, "{}", "second SIGINT: ending the ranks at once; the last checkpoint is kept");
      return children_.kill();
    }
    log(Severity::info, "signal SIG{}: asking the ranks to save and stop", sigabbrev_np(number));
    if (under_srun_)
      stop_srun();
    else
      children_.signal(SIGTERM);
    told_to_stop_ = true;
  }
  /// srun hands USR1 on to its tasks, where INT and TERM would make it end them. It forgets a signal that comes before
  /// its tasks run, hence again and again.
  void stop_srun() {
    children_.signal(SIGUSR1);
    stop_again_at_ = Deadline::after(2s);
  }

  const Options& options_;
  SupervisorSignals& signals_;
  Rendezvous rendezvous_;
  Children children_;
  bool under_srun_;
  bool told_to_stop_ = false;
  std::optional<Deadline> kill_at_;
  std::optional<Deadline> stop_again_at_;
};

/// Back into the queue, unless somebody cancelled the job (scontrol would revive it). Slurm restarts it soonest if this
/// process then ends at once.
void requeue_job(const slurm::Allocation& allocation) {
  auto state = slurm::job_state(allocation);
  if (state == "CANCELLED" || state == "COMPLETING") {
    log(Severity::info, "job {} is {}: not requeued", allocation.job, state);
    return;
  }
  slurm::requeue(allocation);
  log(Severity::info, "job {} is back in the queue", allocation.job);
}
}  // namespace

std::vector<Child> children_of(const Mission& mission, const Options& options, const std::filesystem::path& rendezvous,
                               const std::string& launch_id) {
  if (mission.allocation) {
    const auto& job = *mission.allocation;
    Child srun{{"srun", "--mpi=pmix", fmt::format("--nodes={}", job.nodes), fmt::format("--ntasks={}", mission.ranks),
                fmt::format("--cpus-per-task={}", job.cpus_per_task), "--kill-on-bad-exit=0",
                fmt::format("--wait={:.0f}", std::ceil(std::max(1.0, options.grace_seconds))), "--unbuffered",
                "--export=ALL"},  // also where sbatch was told --export=NONE, which srun would repeat
               {}};
    srun.command.insert(srun.command.end(), mission.worker.begin(), mission.worker.end());
    if (auto end = slurm::end_of_job(job))
      srun.variables["DISTDL_END_OF_JOB"] = std::to_string(std::chrono::system_clock::to_time_t(*end));
    return {srun};
  }
  std::vector<Child> children;
  children.reserve(static_cast<std::size_t>(mission.ranks));
  for (int rank = 0; rank < mission.ranks; ++rank)
    children.push_back({mission.worker,
                        {{"DISTDL_RANK", std::to_string(rank)},
                         {"DISTDL_WORLD_SIZE", std::to_string(mission.ranks)},
                         {"DISTDL_RENDEZVOUS", rendezvous.string()},
                         {"DISTDL_LAUNCH_ID", launch_id}}});
  return children;
}

Verdict judge(int code) {
  switch (static_cast<ExitCode>(code)) {
    case ExitCode::ok:
      return Verdict::finished;
    case ExitCode::requeue:
      return Verdict::resume_later;
    case ExitCode::peer_lost:
    case ExitCode::scheduler:
    case ExitCode::internal:
      return Verdict::relaunch;
    default:
      return code >= 128 ? Verdict::relaunch : Verdict::give_up;
  }
}

void check(const Options& options) {
  require(options.relaunches >= 0, "run.relaunches is {}, but must not be negative", options.relaunches);
  require(options.grace_seconds >= 0 && options.grace_seconds <= kLongestGrace,
          "run.grace_seconds is {}, but must be between 0 and {}", options.grace_seconds, kLongestGrace);
}

int supervise(const Mission& mission, const Options& options) {
  check(options);
  SupervisorSignals signals;
  std::int64_t tries_left = options.relaunches;
  for (Progress progress(mission);;) {
    const Mission next = progress.next_launch();
    auto [code, told_to_stop] = Launch(next, options, signals).watch();
    // No rank ends with 1: srun itself had trouble, as with a node that has just been lost.
    if (mission.allocation && code == 1) code = static_cast<int>(ExitCode::scheduler);
    switch (judge(code)) {
      case Verdict::finished:
      case Verdict::give_up:
        return code;
      case Verdict::resume_later:
        if (mission.allocation && options.requeue)
          requeue_job(*mission.allocation);
        else
          log(Severity::info, "{}", "stopped with everything saved; run the same command again to go on");
        return code;
      case Verdict::relaunch:
        break;
    }
    if (told_to_stop) {
      // A signal may have met ranks that were just starting.
      log(Severity::warning, "the ranks ended with code {} when asked to stop; the last checkpoint counts", code);
      if (mission.allocation && options.requeue) requeue_job(*mission.allocation);
      return code;
    }
    if (progress.is_made()) tries_left = options.relaunches;
    if (tries_left-- <= 0) {
      log(Severity::error,
          "the ranks ended with code {}, {} relaunches brought the run no further; giving up. What each rank said is "
          "in \"{}\"",
          code, options.relaunches, (mission.checkpoints.parent_path() / "logs").string());
      return code;
    }
    log(Severity::warning, "the ranks ended with code {}; relaunching ({} more times if the run comes no further); {}",
        code, tries_left, progress.outlook());
  }
}

}  // namespace distdl::agent
