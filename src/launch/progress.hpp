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

/// Whether a run comes on, as seen between its launches.
class Progress {
 public:
  /// Throws StorageError.
  explicit Progress(const LaunchSpec& spec);

  /// After a launch: whether the next one is no further try at what this one failed in.
  bool is_made();
  /// Whether a launch of this job, or an earlier job of the run, has begun to train.
  bool has_begun() const { return is_begun_ || (spec_.allocation && starts_ > 0); }
  /// The next launch. What two launches in a row began with and came no further, it leaves out.
  LaunchSpec next_launch() const;
  /// With what it begins, for people.
  std::string outlook() const;

 private:
  /// Whether it left a new checkpoint, or began further on than those before it. How far the snapshots of a launch go
  /// is not known until the next one has found them.
  bool is_further();
  /// Whether it trained, and its last step is not that of the launch before. Training repeats itself exactly, so what
  /// breaks off elsewhere each time comes from outside.
  bool breaks_off_elsewhere();
  std::vector<Step> starts() const { return spec_.starts ? spec_.starts() : std::vector<Step>(); }
  std::optional<Step> last_done() const { return spec_.last_done ? spec_.last_done() : std::nullopt; }

  const LaunchSpec& spec_;
  std::int64_t checkpoint_;
  std::size_t starts_;  ///< known, also from before
  bool is_begun_ = false;
  Step furthest_;             ///< at which a launch has begun
  std::optional<Step> last_;  ///< at which the last launch began
  int in_a_row_ = 0;          ///< launches that began there, and left no new checkpoint
  std::optional<Step> below_;
  std::optional<Step> last_done_;  ///< by the last launch that trained
  int elsewhere_ = 0;              ///< launches in a row that came no further
};

}  // namespace distdl::launch
