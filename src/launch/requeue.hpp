// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/launch/options.hpp>
#include <distdl/launch/processes.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::launch {

/// Exponential back-off: each pause is twice as long as the one before, up to `longest`.
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

/// Whether Slurm has ended this run of the job, or restarted it elsewhere. This process must then leave the job alone.
/// Throws SchedulerError if Slurm does not answer.
bool is_over(const slurm::Allocation& allocation);

/// Requeues the job, unless it was cancelled (scontrol would revive it) or Slurm has requeued it already. Repeats the
/// request while the controller does not answer. Slurm restarts the job earliest if this process then ends at once.
/// Returns whether it is this call that put the job back. Throws SchedulerError if Slurm refuses, or does not answer
/// within run.scheduler_minutes.
bool requeue_job(const slurm::Allocation& allocation, const Options& options, SupervisorSignals& signals);

}  // namespace distdl::launch
