// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/agent/processes.hpp>
#include <distdl/launch/options.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::launch {

/// Exponential back-off: each pause is twice as long as the previous one, up to `longest`.
class BackOff {
 public:
  BackOff(Milliseconds first, Milliseconds longest) : next_(first), longest_(longest) {}
  Milliseconds next() {
    const auto now = next_;
    next_ = std::min(longest_, next_ * 2);
    return now;
  }

 private:
  Milliseconds next_, longest_;
};

/// Whether Slurm has ended this run of the job, or restarted it elsewhere. This process must then not change the job
/// any more. Throws SchedulerError if Slurm does not answer.
bool is_over(const slurm::Allocation& allocation);

/// Requeues the job, unless it was cancelled (scontrol would revive it) or Slurm has already requeued it. Repeats the
/// request while the controller does not answer. Slurm restarts the job earliest if this process then ends at once.
/// With `batch_host_lost` also a job that Slurm fails because its batch host came back (see requeue_if_script_lost).
/// Returns whether this call has requeued it. Throws SchedulerError if Slurm refuses, or does not answer within
/// run.scheduler_minutes.
bool requeue_job(const slurm::Allocation& allocation, const Options& options, agent::SupervisorSignals& signals,
                 bool batch_host_lost = false);

/// Requeues a job that Slurm fails because its batch script was killed: where a batch host was taken out of a job
/// (--no-kill) and comes back, Slurm ends what runs there, and may take the end of the batch script for that of the
/// job. Slurm accepts this while the job is COMPLETING and its last processes save. Does nothing to any other job.
/// Returns whether this call has requeued it; does not throw.
bool requeue_if_script_lost(const slurm::Allocation& allocation);

}  // namespace distdl::launch
