// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <thread>

#include <distdl/base/log.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/slurm/commands.hpp>
#include <distdl/slurm/scheduler.hpp>

namespace distdl::launch {
namespace {
using namespace std::chrono_literals;

constexpr int kMostRefusals = 3;
constexpr const char* kRestarted = "already restarted by Slurm";

/// As Slurm 22.05, or 23.02 and newer, says of a job whose batch script ended by a signal. So does the script of a job
/// that a user has cancelled.
bool has_lost_script(const slurm::JobRecord& record) {
  return !record.is_alive() && !record.is_pending() && !record.state.starts_with("CANCELLED") &&
         (record.reason == "JobLaunchFailure" || record.reason.starts_with("RaisedSignal"));
}

/// The reason why the job is no longer this process's to change: unknown to Slurm, already restarted, or its final
/// state; nothing while it still is. With `batch_host_lost`, a job that lost only its batch script still is. Slurm is
/// asked anew, because decisions based on the answer cannot be undone.
std::optional<std::string> fate_of(const slurm::Allocation& allocation, bool batch_host_lost = false) {
  const auto record = slurm::scheduler().job(allocation.called(), slurm::Freshness::now);
  if (!record) return "unknown to Slurm";
  if (record->restarts > allocation.restart) return kRestarted;
  if (batch_host_lost && has_lost_script(*record)) return std::nullopt;
  return record->is_alive() ? std::nullopt : std::optional(record->state);
}
}  // namespace

bool is_over(const slurm::Allocation& allocation) {
  return fate_of(allocation).has_value();
}

bool requeue_job(const slurm::Allocation& allocation, const Options& options, agent::SupervisorSignals& signals,
                 bool batch_host_lost) {
  const auto limit = Deadline::after(
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.scheduler_minutes * 60)));
  BackOff pauses(1s, 15s);
  for (int refusals = 0;;) {
    bool answers = false;
    try {
      if (auto fate = fate_of(allocation, batch_host_lost)) {
        // Slurm ends the processes of a job that it requeues, scontrol before it can report among them.
        if (refusals > 0 && *fate == kRestarted) {
          log(Severity::info, "job {} was requeued", allocation.called());
          return true;
        }
        log(Severity::info, "job {} is {}: not requeued", allocation.called(), *fate);
        return false;
      }
      answers = true;
      slurm::scheduler().requeue(allocation.called());
      log(Severity::info, "job {} was requeued", allocation.called());
      return true;
    } catch (const SchedulerError& error) {
      // A controller that answers means what it says, but it may be going down just now.
      if (limit.expired() || (answers && ++refusals == kMostRefusals)) throw;
      if (!slurm::has_scontrol())
        throw SchedulerError(
            fmt::format("job {} cannot be requeued from this node, which has no scontrol on PATH; submit the same job "
                        "again, it resumes from its last checkpoint",
                        allocation.called()));
      const auto pause = pauses.next();
      log(Severity::warning,
          "{}; waiting for Slurm to requeue the job, for up to {:g} min (run.scheduler_minutes); next "
          "try "
          "in {} s",
          error.what(), options.scheduler_minutes, pause / 1s);
      for (const auto end = Deadline::after(pause); !end.expired();)
        if (signals.wait_for_stop(std::chrono::ceil<Milliseconds>(end.remaining())) == SIGINT) throw;
    }
  }
}

bool requeue_if_script_lost(const slurm::Allocation& allocation) {
  constexpr int kMostTries = 5;
  for (int tries = 1;; ++tries) try {
      const auto record = slurm::scheduler().job(allocation.called(), slurm::Freshness::now);
      if (!record || record->restarts > allocation.restart || !has_lost_script(*record)) return false;
      log(Severity::warning, "Slurm fails job {} ({}), because its batch host came back: it is requeued",
          allocation.called(), record->reason);
      slurm::scheduler().requeue(allocation.called());
      return true;
    } catch (const SchedulerError& error) {
      log(Severity::warning, "{}", error.what());
      if (tries == kMostTries || !slurm::has_scontrol()) return false;
      std::this_thread::sleep_for(500ms);
    }
}

}  // namespace distdl::launch
