// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <distdl/checkpoint/multilevel/redundancy.hpp>

namespace distdl::checkpoint {
namespace {

/// The ranks of each domain, ascending; the domains in the order of their first ranks.
std::vector<std::vector<int>> ranks_by_domain(const Domains& domains) {
  std::vector<std::vector<int>> groups;
  std::map<std::string, std::size_t> places;
  for (std::size_t rank = 0; rank < domains.size(); ++rank) {
    const auto [place, is_new] = places.try_emplace(domains[rank], groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(static_cast<int>(rank));
  }
  return groups;
}

}  // namespace

std::vector<int> partners_of(const Domains& domains) {
  std::vector<int> partners(domains.size(), -1);
  const auto groups = ranks_by_domain(domains);
  if (groups.size() < 2) return partners;
  for (std::size_t d = 0; d < groups.size(); ++d) {
    const auto& next = groups[(d + 1) % groups.size()];
    for (std::size_t k = 0; k < groups[d].size(); ++k)
      partners[static_cast<std::size_t>(groups[d][k])] = next[k % next.size()];
  }
  return partners;
}

std::vector<std::vector<int>> parity_sets(const Domains& domains, int largest) {
  const auto groups = ranks_by_domain(domains);
  std::vector<std::vector<int>> sets;
  for (std::size_t k = 0;; ++k) {
    std::vector<int> row;  // the k-th rank of each domain that has so many
    for (const auto& group : groups)
      if (k < group.size()) row.push_back(group[k]);
    if (row.empty()) return sets;
    // As equal as can be, so that no rank is left over alone.
    const std::size_t most = static_cast<std::size_t>(largest), count = (row.size() + most - 1) / most;
    for (std::size_t s = 0; s < count; ++s) {
      const auto begin = row.begin() + static_cast<std::ptrdiff_t>(row.size() * s / count);
      const auto end = row.begin() + static_cast<std::ptrdiff_t>(row.size() * (s + 1) / count);
      if (end - begin >= 2) sets.emplace_back(begin, end);
    }
  }
}

void add_parity(std::span<std::byte> target, std::span<const std::byte> source) {
  const std::size_t count = std::min(target.size(), source.size());
  for (std::size_t i = 0; i < count; ++i) target[i] ^= source[i];
}

std::span<const std::byte> chunk_of(std::span<const std::byte> snapshot, const ParityLayout& layout,
                                    std::size_t chunk) {
  const std::size_t begin = std::min(snapshot.size(), chunk * layout.chunk());
  return snapshot.subspan(begin, std::min(layout.chunk(), snapshot.size() - begin));
}

}  // namespace distdl::checkpoint
