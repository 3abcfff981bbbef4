// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include <distdl/checkpoint/multilevel/level.hpp>
#include <distdl/checkpoint/options.hpp>
#include <distdl/checkpoint/protection.hpp>

namespace distdl::checkpoint {
namespace {

std::uint32_t bit_of(const Level& level) {
  return std::uint32_t{1} << place_of(level);
}

}  // namespace

Protection::Protection(std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) add(level_called(name));
}

bool Protection::has(const Level& level) const {
  return (bits_ & bit_of(level)) != 0;
}

bool Protection::has(std::string_view name) const {
  return has(level_called(name));
}

void Protection::add(const Level& level) {
  bits_ |= bit_of(level);
}

std::size_t Protection::size() const noexcept {
  return static_cast<std::size_t>(std::popcount(bits_));
}

std::vector<std::string> Protection::names() const {
  std::vector<std::string> names;
  for (const Level* level : levels())
    if (has(*level)) names.emplace_back(level->name);
  return names;
}

Protection Protection::in_memory() const {
  Protection part;
  for (const Level* level : levels())
    if (level->in_memory && has(*level)) part.add(*level);
  return part;
}

Protection used_levels(const Options& options) {
  Protection used;
  for (const Level* level : levels())
    if (options.*level->every > 0) used.add(*level);
  return used;
}

Protection due_levels(const Options& options, Step step) {
  Protection due;
  for (const Level* level : levels())
    if (const std::int64_t every = options.*level->every; every > 0 && step.value % every == 0) due.add(*level);
  return due;
}

std::size_t snapshot_buffers(const std::optional<Protection>& levels) {
  if (!levels) return 2;
  return 2 + std::max<std::size_t>(1, levels->in_memory().size());
}

}  // namespace distdl::checkpoint
