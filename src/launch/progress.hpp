// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/launch/supervisor.hpp>

namespace distdl::launch {

/// The progress of a run, as seen between its launches.
class Progress {
 public:
  /// Throws StorageError.
  explicit Progress(const LaunchSpec& spec);

  /// Call it after a launch. True if the launch made progress, so that the next one does not count as another try.
  bool is_made();
  /// Whether a launch of this job, or an earlier job of the run, has begun to train.
  bool has_begun() const { return is_begun_ || (spec_.allocation && starts_ > 0); }
  /// The next launch. If two launches in a row began at the same step and made no progress, or LaunchSpec::is_poisoned,
  /// it resumes from a checkpoint before that step.
  LaunchSpec next_launch() const;
  /// Describes for people where the next launch begins.
  std::string restart_summary() const;

 private:
  /// True if the last launch left a new checkpoint, or began at a later step than all before it. How far the snapshots
  /// of a launch go is unknown until the next one has found them.
  bool is_further();
  /// True if the last launch trained, and ended at another step than the launch before it. Training is deterministic,
  /// so a failure at another step each time has a cause outside the run.
  bool breaks_off_elsewhere();
  std::vector<Step> starts() const { return spec_.starts ? spec_.starts() : std::vector<Step>(); }
  std::optional<Step> last_done() const { return spec_.last_done ? spec_.last_done() : std::nullopt; }

  const LaunchSpec& spec_;
  std::int64_t checkpoint_;
  std::size_t starts_;  ///< number of known starts, also those before this object
  bool is_begun_ = false;
  Step furthest_;             ///< latest step at which a launch has begun
  std::optional<Step> last_;  ///< step at which the last launch began
  int in_a_row_ = 0;          ///< launches in a row that began at last_ and left no new checkpoint
  std::optional<Step> below_;
  std::optional<Step> last_done_;  ///< last step of the last launch that trained
  int elsewhere_ = 0;              ///< launches in a row without progress
};

}  // namespace distdl::launch
