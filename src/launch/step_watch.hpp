// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include <distdl/base/clock.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::launch {

/// Detects an srun that waits for a step that has ended. A node that is cut off while its tasks end cannot report that
/// to srun, and its slurmstepd gives up after a minute. Slurm's controller knows that the step has ended, but srun
/// waits forever.
class StepWatch {
 public:
  StepWatch(const slurm::Allocation& allocation, std::string name, Milliseconds period)
      : allocation_(allocation),
        name_(std::move(name)),
        period_(period),
        until_seen_(std::min(period, kFirstLook), period) {}

  /// Whether Slurm knew the step of this name at some time, but not at the last two checks. It checks once per period,
  /// and more often until it has seen the step, because a step may end before the first period does.
  bool is_over();

 private:
  static constexpr Milliseconds kFirstLook{2000};

  const slurm::Allocation& allocation_;
  std::string name_;
  Milliseconds period_;
  BackOff until_seen_;
  Deadline next_ = Deadline::after(until_seen_.next());
  bool seen_ = false;
  int missed_ = 0;  ///< number of checks in a row
};

}  // namespace distdl::launch
