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
/// for the measured times of steps and saves on this rank. Since ranks measure different times, rank 0 decides for all.
class CheckpointSchedule {
 public:
  /// Throws ConfigError for options that make no sense.
  CheckpointSchedule(const checkpoint::Options& options, const checkpoint::FailureRecord& failures);

  bool automatic() const noexcept { return automatic_; }
  /// Whether to save once `step` steps are done.
  bool due(Step step) const;
  /// Counts the steps to the next save from here. Called where the run starts and where a save is tried.
  void tried(Step step) { last_ = step; }
  void step_took(double seconds);
  /// Takes the times of a save: training waited for `stall` seconds, and the commit came after `durable`. True if the
  /// interval should be reported: the first measured one, or one that has changed.
  bool saved(double stall, double durable);

  /// The initial interval as text for users.
  std::string plan() const;
  std::int64_t steps() const noexcept { return steps_; }  ///< between saves; 0: none on the way
  /// The reason for the interval as text for users.
  std::string reason() const;

 private:
  std::int64_t measured_steps(double durable);

  bool automatic_;
  std::int64_t steps_;
  double mean_between_failures_;
  std::string source_;  ///< of that number
  Step last_;
  bool disk_decides_ = false;  ///< an interval that pays would end before the save is on the disk
  double step_seconds_ = 0;    ///< a mean in which older steps count less and less
  std::deque<double> stalls_;
};

}  // namespace distdl::train
