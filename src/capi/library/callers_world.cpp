// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstring>

#include <distdl/capi/library/callers_world.hpp>

namespace distdl::capi {

std::string CallersWorld::exchanged(const std::string& mine) const {
  std::string all(mine.size() * static_cast<std::size_t>(size_), '\0');
  const int code = exchange_(context_, mine.data(), mine.size(), all.data());
  require<SchedulerError>(code == 0, "the caller's exchange of {} bytes between {} ranks has returned {}", mine.size(),
                          size_, code);
  require<SchedulerError>(all.compare(static_cast<std::size_t>(rank_.value) * mine.size(), mine.size(), mine) == 0,
                          "the caller's exchange has not put the bytes of rank {} at their place", rank_);
  return all;
}

std::vector<std::string> CallersWorld::all_gather_strings(const std::string& mine, Milliseconds) {
  const std::uint64_t length = mine.size();
  std::string own(sizeof length, '\0');
  std::memcpy(own.data(), &length, sizeof length);
  const std::string told = exchanged(own);
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(size_));
  std::memcpy(lengths.data(), told.data(), told.size());
  const std::uint64_t longest = *std::ranges::max_element(lengths);
  constexpr std::uint64_t kMost = 1 << 24;
  require<SchedulerError>(longest <= kMost, "the caller's exchange has mixed up the bytes of the ranks");
  own = mine;
  own.resize(longest);
  const std::string all = exchanged(own);
  std::vector<std::string> strings;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank)
    strings.push_back(all.substr(rank * longest, lengths[rank]));
  return strings;
}

}  // namespace distdl::capi
