// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <distdl/checkpoint/options.hpp>

namespace distdl::checkpoint {

/// A kind of copies of a snapshot. Each is defined in its own file; level.cpp lists them all.
struct Level {
  std::string_view name;  ///< name in records
  /// The copies lie in the memory of other nodes. They are useless without the other ranks' snapshot buffers, which
  /// therefore stay as long as the copies, and they are made anew after a restart.
  bool in_memory = false;
  std::string_view key;          ///< job key of the interval
  std::int64_t Options::*every;  ///< steps between copies; 0: none
  /// Throws ConfigError for invalid values of the level's other options. Null: it has none.
  void (*check)(const Options& options) = nullptr;
};

/// All levels, in the order in which copies are made and in which a restore prefers them.
std::span<const Level* const> levels();
/// Throws ConfigError with the known names if there is no level of this name.
const Level& level_called(std::string_view name);
/// Position in levels().
std::size_t place_of(const Level& level);

}  // namespace distdl::checkpoint
