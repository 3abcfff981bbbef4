// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include <distdl/base/clock.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::launch {

/// Detects an srun that waits for a step that is over. A node that is cut off while its tasks end cannot tell srun; its
/// slurmstepd gives up after a minute. Slurm's controller knows that the step is over; srun never learns it and waits
/// for ever.
class StepWatch {
 public:
  StepWatch(const slurm::Allocation& allocation, std::string name, Milliseconds period)
      : allocation_(allocation),
        name_(std::move(name)),
        period_(period),
        until_seen_(std::min(period, kFirstLook), period) {}

  /// Whether Slurm has known the step of this name since this began, and no more at the last two looks. Looks once in a
  /// period; until it has seen the step, sooner, for a step may be over before the first period is.
  bool is_over();

 private:
  static constexpr Milliseconds kFirstLook{2000};

  const slurm::Allocation& allocation_;
  std::string name_;
  Milliseconds period_;
  BackOff until_seen_;
  Deadline next_ = Deadline::after(until_seen_.next());
  bool seen_ = false;
  int missed_ = 0;  ///< looks in a row
};

}  // namespace distdl::launch
