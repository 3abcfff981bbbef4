// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/interval.hpp>
#include <distdl/checkpoint/options.hpp>

namespace distdl::train {

/// Decides after which steps to save: at a fixed interval or, with checkpoint.every = "auto", at the optimal interval
/// for the measured times of steps and saves on this rank. Ranks measure different times, so rank 0 decides for all.
class CheckpointSchedule {
 public:
  /// Throws ConfigError for invalid options.
  CheckpointSchedule(const checkpoint::Options& options, const checkpoint::FailureRecord& failures);

  bool automatic() const noexcept { return automatic_; }
  /// Whether to save after `step` steps.
  bool due(Step step) const;
  /// Sets the start of the interval to the next save. Called at the start of the run and at every attempt to save.
  void tried(Step step) { last_ = step; }
  void step_took(double seconds);
  /// Records the times of a save: training waited for `stall` seconds, and the commit came after `durable` seconds.
  /// Returns true if the interval should be reported, because it is the first measured one or has changed.
  bool saved(double stall, double durable);

  /// The initial interval as text for users.
  std::string plan() const;
  std::int64_t steps() const noexcept { return steps_; }  ///< steps between saves; 0: none before the end
  /// The reason for the interval as text for users.
  std::string reason() const;

 private:
  std::int64_t measured_steps(double durable);

  bool automatic_;
  std::int64_t steps_;
  double mean_between_failures_;
  std::string source_;  ///< source of that number
  Step last_;
  bool disk_decides_ = false;  ///< the optimal interval would end before the save is on the disk
  double step_seconds_ = 0;    ///< a mean in which older steps have decreasing weights
  std::deque<double> stalls_;
};

}  // namespace distdl::train
