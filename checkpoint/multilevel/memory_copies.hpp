// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/multilevel/level.hpp>

namespace distdl::checkpoint {

/// Copies of a level in this node's memory, which this rank keeps for other ranks. The older ones stay until all ranks
/// have the newer ones.
class MemoryCopies : public LevelCopies {
 public:
  MemoryCopies(const Level& level, const Ranks& ranks) : LevelCopies(level), ranks_(ranks) {}

  void give_up() noexcept override;
  void remove_older(const IsWanted& is_not_older) override;
  void keep_only(const IsWanted& is_wanted) override;

 protected:
  /// Collective. The bytes of each rank's buffer.
  std::vector<std::size_t> sizes_of_all(std::size_t own) const;

  const Ranks& ranks_;
  std::vector<SnapshotMemory> fresh_;  ///< made by protect(); remove_older() makes them the current ones

 private:
  std::vector<SnapshotMemory> current_;
};

/// Removes the buffers whose label is not wanted or cannot be read.
void keep_only(std::vector<SnapshotMemory>& buffers, const IsWanted& is_wanted);
/// Removes all of them.
void remove_all(std::vector<SnapshotMemory>& buffers) noexcept;

}  // namespace distdl::checkpoint
