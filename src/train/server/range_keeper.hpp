// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include <distdl/checkpoint/snapshot_buffer.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::train {

/// Keeps the newest two versions of each range that a rank's server has, in the memory of its node, where they outlive
/// the process. The ranges of one step are a snapshot of so many ranks as there are ranges: a restart finds it as any
/// other (checkpoint::Levels), whichever of a range's holders is left. Two versions, because other servers may be one
/// behind. Without memory for them it keeps none, and says so once.
class RangeKeeper {
 public:
  /// `run`: name of the run's snapshots. `rank`: that of this process, in the names of its memory.
  RangeKeeper(std::string run, checkpoint::Start start, int rank, std::size_t copy_threads);

  /// Takes the place of the older one of the range.
  void keep(int range, int ranges, Step step, std::span<const checkpoint::Slice> slices,
            const checkpoint::State& state);
  /// The run has ended well, or what was kept is not to be used.
  void remove() noexcept;

 private:
  struct Range {
    std::array<std::optional<checkpoint::SnapshotMemory>, 2> places;
    std::size_t newest = 0;
  };
  std::string run_;
  checkpoint::Start start_;
  int rank_;
  std::size_t copy_threads_;
  std::uint64_t sequence_ = 0;
  bool has_no_memory_ = false;
  std::map<int, Range> ranges_;
};

}  // namespace distdl::train
