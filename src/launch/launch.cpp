// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include <distdl/agent/agent.hpp>
#include <distdl/agent/inspector.hpp>
#include <distdl/agent/launch_record.hpp>
#include <distdl/base/child_processes.hpp>
#include <distdl/base/log.hpp>
#include <distdl/launch/job_end.hpp>
#include <distdl/launch/launch.hpp>
#include <distdl/launch/launch_processes.hpp>
#include <distdl/launch/local_activity.hpp>
#include <distdl/launch/lost_hosts.hpp>
#include <distdl/launch/rendezvous.hpp>
#include <distdl/launch/step_watch.hpp>
#include <distdl/slurm/nodes.hpp>

namespace distdl::launch {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kTick{100};    ///< between two looks at local ranks
constexpr auto kLedgerLook = 2s;      ///< between two looks at whether the agents have agreed on the end
constexpr auto kJournalLook = 500ms;  ///< between two looks at whether a rank has failed
constexpr auto kSrunEnd = 5s;         ///< that srun has to end after that

/// One launch from start to end.
class Launch {
 public:
  Launch(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals)
      : options_(options),
        signals_(signals),
        lock_(spec.lock),
        id_(spec.id),
        rendezvous_(spec.allocation ? std::optional<Rendezvous>() : std::optional<Rendezvous>(std::in_place)),
        activity_(spec.allocation ? 0 : spec.ranks, spec.stall),
        processes_(activity_.with_memory(processes_of(spec, options, rendezvous_ ? rendezvous_->folder() : "", id_))),
        under_srun_(spec.allocation.has_value()),
        ends_orphans_(spec.runs_program && !spec.allocation) {
    if (ends_orphans_) adopt_orphans();
    activity_.close_descriptors();
    if (!spec.agents) inspector_.emplace(spec.checkpoints.parent_path()).update(activity_.node(processes_));
    if (!spec.allocation) return;
    if (spec.agents) agents_of_ = spec.checkpoints.parent_path();
    if (!spec.agents) has_failed_ = spec.has_failed;
    if (has_failed_ && !spec.allocation->node_list.empty()) nodes_ = slurm::nodes_of(*spec.allocation);
    node_lost_ = spec.node_lost;
    step_.emplace(*spec.allocation, step_name(id_),
                  std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(options.step_seconds)));
    end_.emplace(*spec.allocation, spec.checkpoints.parent_path(), spec.limits.end);
  }

  LaunchResult watch() {
    while (processes_.reap() > 0) {
      if (auto number = signals_.wait(wait_time()); number && *number != SIGCHLD) stop(*number);
      look();
    }
    if (ends_orphans_) end_orphans();
    constexpr int kSaved = static_cast<int>(ExitCode::requeue);
    hear_agents();
    const int code = agreed_.value_or(processes_.code());
    const bool told_to_stop = told_to_stop_ || is_stop_signal(code);
    const bool is_srun_waiting = under_srun_ && code == 1;              // for a step that it could not make yet
    const bool is_ended = told_to_stop_ && !activity_.stall().empty();  // a rank that hung when asked to stop
    const bool is_stopped = is_stop_signal(code) || is_ended || (told_to_stop && is_srun_waiting);
    std::string cause = activity_.stall();
    if (cause.empty() && !under_srun_ && !told_to_stop && !is_stopped) cause = killed_rank();
    if (!lost_.empty())
      cause = fmt::format("the step was ended after the loss of {}: srun does that when such a node is back",
                          fmt::join(lost_, ", "));
    if (!silent_.empty()) cause = fmt::format("the host of {} does not answer", fmt::join(silent_, ", "));
    const bool has_lost = !lost_.empty() || !silent_.empty();
    return {is_stopped ? kSaved : code, told_to_stop, code == kSaved && !is_ended, std::move(cause), has_lost, silent_};
  }

 private:
  void look() {
    if (stop_again_at_ && stop_again_at_->expired()) stop_srun();
    if (lock_ && lock_->is_lost() && !kill_at_) {
      processes_.signal(SIGTERM);
      kill_after_grace();
    }
    if (processes_.failed() && !under_srun_ && !kill_at_) kill_after_grace();
    if (kill_at_ && kill_at_->expired()) processes_.kill();
    if (step_ && step_->is_over()) end_srun("for a step that Slurm has ended");
    if (has_outlived_agents()) end_srun("for a node that was lost, although the run has ended on the others");
    if (has_outlived_ranks()) end_srun("for a node that was lost, although the ranks on the others have ended");
    if (end_) end_->poll();
    if (under_srun_) return;
    const auto now = Clock::now();
    const auto late = std::max<Clock::duration>(now - std::exchange(looked_at_, now) - 2 * kTick, {});
    activity_.end_stalled(processes_, now, late);
  }
  /// srun fails where a node was lost, although the run has ended well on the others: agents say how it has. If they
  /// have not ended it, something ended them, and what they lost before tells why.
  void hear_agents() {
    if (agents_of_.empty()) return;
    try {
      agreed_ = agent::agreed_code(agents_of_, id_);
      if (!agreed_) lost_ = lost_nodes();
    } catch (const Error& error) {  // of records: unreadable or damaged
      log(Severity::warning, "{}", error.what());
    }
    agent::remove_launch(agents_of_, id_);
  }
  /// Nodes of the job that the agents went on without.
  std::vector<std::string> lost_nodes() const {
    std::vector<std::string> hosts;
    const auto open = agent::find_launch(agents_of_, id_);
    if (!open) return hosts;
    const auto& [record, newest] = *open;
    for (std::size_t i = 0; i < record.agents.size(); ++i) {
      const agent::NodeId node(static_cast<std::uint32_t>(i));
      const bool is_there = agent::contains(newest.members, node) || agent::contains(newest.spares, node) ||
                            agent::contains(newest.wrong, node);
      if (!is_there) hosts.push_back(record.agents[i].host);
    }
    return hosts;
  }
  void kill_after_grace() {
    kill_at_ = Deadline::after(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.grace_seconds)));
  }
  /// For a task of a lost node srun waits until Slurm has given the node up, which takes minutes.
  bool has_outlived_agents() {
    if (agents_of_.empty() || !ledger_look_.expired()) return false;
    ledger_look_ = Deadline::after(kLedgerLook);
    try {
      if (!srun_end_ && agent::agreed_code(agents_of_, id_)) srun_end_ = Deadline::after(kSrunEnd);
    } catch (const StorageError& error) {
      log(Severity::debug, "{}", error.what());  // srun's end tells as well
    }
    return srun_end_ && srun_end_->expired();
  }
  /// As has_outlived_agents(), where srun has started the ranks: it ends those that are left grace_seconds after the
  /// first.
  bool has_outlived_ranks() {
    if (!has_failed_ || !ledger_look_.expired()) return false;
    ledger_look_ = Deadline::after(kJournalLook);
    if (!srun_end_ && has_failed_()) {
      const auto grace = std::chrono::duration<double>(options_.grace_seconds);
      srun_end_ = Deadline::after(std::chrono::duration_cast<Clock::duration>(grace) + kSrunEnd);
      lost_hosts_.emplace(nodes_, node_lost_);
    }
    if (!srun_end_) return false;
    if (auto found = lost_hosts_->poll()) silent_ = std::move(*found);
    return !silent_.empty() || srun_end_->expired();
  }
  void end_srun(const char* why) {
    log(Severity::warning, "srun waits {}: ending srun", why);
    processes_.kill();
    step_.reset();
    has_failed_ = nullptr;
    srun_end_.reset();
  }
  Milliseconds wait_time() const {
    if (!kill_at_) return has_failed_ ? kJournalLook : under_srun_ ? 1000ms : kTick;
    return std::clamp(std::chrono::ceil<Milliseconds>(kill_at_->remaining()), 10ms, 1000ms);
  }
  /// "rank 3 was killed by SIGKILL"; empty: that is not why the ranks ended.
  std::string killed_rank() const {
    constexpr int kSignal = 128;
    const auto& end = processes_.cause();
    const char* name = end && end->code > kSignal ? sigabbrev_np(end->code - kSignal) : nullptr;
    return name ? fmt::format("rank {} was killed by SIG{}", end->index, name) : "";
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
      processes_.signal(number == SIGINT ? SIGINT : SIGTERM);  // ranks record which, and a user's own is no preemption
    told_to_stop_ = true;
    activity_.stop(Clock::now());
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
  std::string id_;
  std::optional<Rendezvous> rendezvous_;  ///< rendezvous of local ranks; nothing under srun
  LocalActivity activity_;
  agent::Processes processes_;
  std::optional<agent::Inspector> inspector_;  ///< agents answer themselves
  bool under_srun_, ends_orphans_;
  std::filesystem::path agents_of_;   ///< the run folder, if agents start the ranks
  std::function<bool()> has_failed_;  ///< whether a rank has, if srun has started them
  std::optional<int> agreed_;         ///< the code with which the agents have ended the launch
  std::vector<std::string> lost_;     ///< nodes that they had lost, if they have not
  std::vector<std::string> nodes_,
      silent_;  ///< nodes of the launch; those whose host does not answer after a rank has failed
  Milliseconds node_lost_{0};
  std::optional<LostHosts> lost_hosts_;
  bool told_to_stop_ = false;
  Clock::time_point looked_at_ = Clock::now();
  std::optional<StepWatch> step_;
  std::optional<EndWatch> end_;
  std::optional<Deadline> kill_at_;
  std::optional<Deadline> stop_again_at_;
  Deadline ledger_look_ = Deadline::after(kLedgerLook);
  std::optional<Deadline> srun_end_;  ///< since the agents have agreed on the end, or a rank has failed
};

}  // namespace

LaunchResult launch(const LaunchSpec& spec, const Options& options, agent::SupervisorSignals& signals) try {
  return Launch(spec, options, signals).watch();
} catch (const SchedulerError& error) {
  log(Severity::error, "{}", error.what());
  return {static_cast<int>(error.exit_code())};
}

}  // namespace distdl::launch
