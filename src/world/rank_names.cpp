// SPDX-License-Identifier: Apache-2.0
#include <distdl/world/rank_names.hpp>

namespace distdl::world {

std::string name_ranks(std::span<const Rank> ranks) {
  constexpr std::size_t kMost = 8;
  const std::size_t shown = ranks.size() <= kMost + 1 ? ranks.size() : kMost;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == ranks.size();
    text += fmt::format("{} {}", i == 0 ? "" : (last ? " and" : ","), ranks[i]);
  }
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

}  // namespace distdl::world
