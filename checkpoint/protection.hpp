// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/ids.hpp>

namespace distdl::checkpoint {

struct Level;
struct Options;

/// A set of levels: the kinds of copies of a snapshot, in addition to the checkpoints on the parallel file system. See
/// docs/checkpoint-format.md, "Levels". The table of levels is in multilevel/level.cpp.
class Protection {
 public:
  Protection() = default;
  /// Throws ConfigError if there is no level of one of these names.
  Protection(std::initializer_list<std::string_view> names);

  bool has(const Level& level) const;
  /// Throws ConfigError if there is no level of this name.
  bool has(std::string_view name) const;
  void add(const Level& level);
  bool is_empty() const noexcept { return bits_ == 0; }
  std::size_t size() const noexcept;
  /// The names of its levels, in the order of the table.
  std::vector<std::string> names() const;
  /// Its levels whose copies lie in the memory of other nodes (Level::in_memory).
  Protection in_memory() const;
  /// True if a copy survives the end of all processes.
  bool outlives_memory() const { return in_memory() != *this; }
  bool operator==(const Protection&) const = default;

 private:
  std::uint32_t bits_ = 0;  ///< bit i: level i of the table
};

/// The name in records of a rank's own snapshot in the memory of its node, which every other level needs.
inline constexpr std::string_view kMemoryLevel = "memory";

/// The levels of which `options` ask for copies.
Protection used_levels(const Options& options);
/// The levels of which `options` ask for copies of this step.
Protection due_levels(const Options& options, Step step);
/// Snapshot buffers of a rank: one to fill, the newest, and with levels the newest of each level in memory. `levels`:
/// the levels that will be used; empty if there are no snapshots apart from those that are written to checkpoints.
std::size_t snapshot_buffers(const std::optional<Protection>& levels);

}  // namespace distdl::checkpoint
