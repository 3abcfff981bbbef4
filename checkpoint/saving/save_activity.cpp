// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <distdl/checkpoint/saving/save_activity.hpp>

namespace distdl::checkpoint {

std::vector<std::string> WatchedGroup::all_gather(const std::string& mine) {
  const char* before = activity_.exchange(kWaits);
  auto all = group_.all_gather(mine);
  activity_.set(before);
  return all;
}

std::string who_is_late(const std::vector<std::string>& activities) {
  constexpr std::size_t kNamed = 8;
  const auto is_late = [](const std::string& what) { return !what.empty() && what != kWaits; };
  const auto late = static_cast<std::size_t>(std::count_if(activities.begin(), activities.end(), is_late));
  if (late == 0) return "a message between the writing threads, because each of them waits for the others";
  std::string text;
  std::size_t named = 0;
  for (std::size_t rank = 0; rank < activities.size() && named < kNamed; ++rank) {
    if (!is_late(activities[rank])) continue;
    text += fmt::format("{}rank {}, which {}", named++ > 0 ? ", for " : "", rank, activities[rank]);
  }
  if (late > named) text += fmt::format(", and for {} more ranks", late - named);
  return text;
}

}  // namespace distdl::checkpoint
