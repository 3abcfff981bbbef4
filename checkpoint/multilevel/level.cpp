// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/multilevel/level.hpp>

namespace distdl::checkpoint {

// One line per level, in the order in which copies are made and in which a restore prefers them.
#define DISTDL_LEVELS(ROW) \
  ROW(kPartner)            \
  ROW(kParity)             \
  ROW(kDisk)

#define DECLARE(level) extern const Level level;
#define ADDRESS(level) &(level),
DISTDL_LEVELS(DECLARE)

namespace {
constexpr const Level* kAll[] = {DISTDL_LEVELS(ADDRESS)};
}  // namespace

int Ranks::first_of_node(const std::string& node) const {
  return static_cast<int>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
}

std::span<const Level* const> levels() {
  return kAll;
}

const Level* find_level(std::string_view name) {
  const auto* const found = std::ranges::find(kAll, name, &Level::name);
  return found == std::end(kAll) ? nullptr : *found;
}

const Level& level_called(std::string_view name) {
  if (const Level* level = find_level(name)) return *level;
  std::vector<std::string_view> names;
  for (const Level* each : kAll) names.push_back(each->name);
  throw ConfigError(fmt::format("there is no level \"{}\", only {}", name, fmt::join(names, ", ")));
}

std::size_t place_of(const Level& level) {
  return static_cast<std::size_t>(std::find(std::begin(kAll), std::end(kAll), &level) - std::begin(kAll));
}

}  // namespace distdl::checkpoint
