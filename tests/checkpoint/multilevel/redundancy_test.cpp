// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include <distdl/base/philox.hpp>
#include <distdl/checkpoint/multilevel/redundancy.hpp>

namespace distdl::checkpoint {
namespace {

using Bytes = std::vector<std::byte>;

/// `counts[d]` ranks in domain d, in blocks or dealt out in turn.
Domains domains_of(std::vector<int> counts, bool in_turn) {
  Domains domains;
  const auto more = [&] { return std::any_of(counts.begin(), counts.end(), [](int count) { return count > 0; }); };
  while (more())
    for (std::size_t d = 0; d < counts.size(); ++d)
      for (int here = in_turn ? std::min(counts[d], 1) : counts[d]; here > 0; --here, --counts[d])
        domains.push_back("n" + std::to_string(d));
  return domains;
}

std::vector<Domains> many_domains() {
  std::vector<Domains> all;
  for (const auto& counts : {std::vector{1}, {4}, {1, 1}, {2, 1}, {2, 2}, {1, 3, 2}, {4, 4, 4}, {1, 1, 1, 1, 1}})
    for (bool in_turn : {false, true}) all.push_back(domains_of(counts, in_turn));
  for (int nodes = 2; nodes <= 17; ++nodes)
    all.push_back(domains_of(std::vector<int>(static_cast<std::size_t>(nodes), 2), false));
  return all;
}

Bytes random_bytes(std::uint64_t seed, std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(Philox::block(seed, 0, i)[0]);
  return bytes;
}

TEST(Partners, AreOfAnotherDomain) {
  for (const Domains& domains : many_domains()) {
    const auto partners = partners_of(domains);
    ASSERT_EQ(partners.size(), domains.size());
    const bool alone = std::set(domains.begin(), domains.end()).size() == 1;
    for (std::size_t rank = 0; rank < domains.size(); ++rank)
      if (alone)
        EXPECT_EQ(partners[rank], -1);
      else
        EXPECT_NE(domains[static_cast<std::size_t>(partners[rank])], domains[rank]);
  }
}

TEST(Partners, ShareTheLoadWhereDomainsAreEqual) {
  const auto partners = partners_of(domains_of({2, 2, 2}, true));
  EXPECT_EQ(std::set(partners.begin(), partners.end()).size(), partners.size());
}

TEST(ParitySets, HaveMembersOfDifferentDomainsAndTheWantedSize) {
  for (const Domains& domains : many_domains())
    for (int largest = 3; largest <= 9; ++largest) {
      std::set<int> seen;
      for (const auto& set : parity_sets(domains, largest)) {
        EXPECT_GE(set.size(), 2U);
        EXPECT_LE(set.size(), static_cast<std::size_t>(largest));
        std::set<std::string> names;
        for (int rank : set) {
          EXPECT_TRUE(names.insert(domains[static_cast<std::size_t>(rank)]).second);
          EXPECT_TRUE(seen.insert(rank).second) << "in two sets";
        }
      }
    }
}

TEST(ParitySets, HoldEveryRankOfEqualNodes) {
  for (int nodes = 2; nodes <= 17; ++nodes)
    for (int largest = 3; largest <= 9; ++largest) {
      std::size_t members = 0;
      for (const auto& set :
           parity_sets(domains_of(std::vector<int>(static_cast<std::size_t>(nodes), 2), false), largest))
        members += set.size();
      EXPECT_EQ(members, static_cast<std::size_t>(2 * nodes)) << nodes << " nodes, sets of " << largest;
    }
}

TEST(Parity, GivesBackAnyOneLostMember) {
  for (int members = 2; members <= 9; ++members)
    for (std::size_t longest : {std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{1000}}) {
      std::vector<Bytes> snapshots;
      for (int i = 0; i < members; ++i)
        snapshots.push_back(
            random_bytes(static_cast<std::uint64_t>(i),
                         i == 0 ? longest : longest * static_cast<std::size_t>(i) / static_cast<std::size_t>(members)));
      const ParityLayout layout{members, longest};
      std::vector<Bytes> parity(static_cast<std::size_t>(members), Bytes(layout.chunk()));
      for (int keeper = 0; keeper < members; ++keeper)
        for (int of = 0; of < members; ++of)
          if (of != keeper)
            add_parity(parity[static_cast<std::size_t>(keeper)],
                       chunk_of(snapshots[static_cast<std::size_t>(of)], layout, layout.chunk_of(of, keeper)));
      for (int lost = 0; lost < members; ++lost) {
        Bytes found(layout.chunk() * static_cast<std::size_t>(members - 1));
        for (int keeper = 0; keeper < members; ++keeper) {
          if (keeper == lost) continue;
          const auto chunk = std::span(found).subspan(layout.chunk_of(lost, keeper) * layout.chunk(), layout.chunk());
          add_parity(chunk, parity[static_cast<std::size_t>(keeper)]);
          for (int of = 0; of < members; ++of)
            if (of != keeper && of != lost)
              add_parity(chunk, chunk_of(snapshots[static_cast<std::size_t>(of)], layout, layout.chunk_of(of, keeper)));
        }
        found.resize(snapshots[static_cast<std::size_t>(lost)].size());
        EXPECT_EQ(found, snapshots[static_cast<std::size_t>(lost)]) << members << " members, " << lost << " lost";
      }
    }
}

}  // namespace
}  // namespace distdl::checkpoint
