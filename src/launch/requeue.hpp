// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/launch/options.hpp>
#include <distdl/launch/processes.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::launch {

/// Pauses between tries: each is twice as long as the one before, up to `longest`.
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

/// Whether Slurm has ended, or restarted elsewhere, the run of the job in which this process is: then the job is not
/// this process's to act on. Throws SchedulerError if Slurm cannot be asked.
bool is_over(const slurm::Allocation& allocation);

/// Back into the queue, unless somebody cancelled the job (scontrol would revive it) or Slurm has done it already. Asks
/// again and again while the controller does not answer. Slurm restarts the job soonest if this process then ends at
/// once. Throws SchedulerError if Slurm refuses, or does not answer within run.scheduler_minutes.
void requeue_job(const slurm::Allocation& allocation, const Options& options, SupervisorSignals& signals);

}  // namespace distdl::launch
