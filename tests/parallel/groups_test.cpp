// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/groups.hpp>
#include <distdl/parallel/mesh.hpp>
#include <distdl/world/thread_world.hpp>

namespace distdl::parallel {
namespace {
/// The ranks that have each group.
std::vector<std::vector<int>> holders(int groups, int ranks) {
  std::vector<std::vector<int>> all(static_cast<std::size_t>(groups));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto own = share_of_groups(groups, ranks, Rank(rank)).groups;
    EXPECT_GE(own.count, 1);
    for (int group = own.first; group < own.first + own.count; ++group)
      all.at(static_cast<std::size_t>(group)).push_back(rank);
  }
  return all;
}

TEST(Groups, EachIsOnOneRankOrOnSomeThatHaveNoOther) {
  for (int groups = 1; groups <= 9; ++groups)
    for (int ranks = 1; ranks <= 20; ++ranks) {
      const auto all = holders(groups, ranks);
      const auto leaves = leaves_of_groups(groups, ranks);
      int next = 0;
      for (int group = 0; group < groups; ++group) {
        const auto& own = all[static_cast<std::size_t>(group)];
        ASSERT_FALSE(own.empty()) << group << " of " << groups << " on " << ranks;
        for (const int rank : own) {
          const auto share = share_of_groups(groups, ranks, Rank(rank));
          EXPECT_EQ(share.first_rank, own.front());
          EXPECT_TRUE(own.size() == 1 || share.groups.count == 1);
        }
        EXPECT_LE(own.size(), static_cast<std::size_t>((ranks + groups - 1) / groups));
      }
      for (const auto& range : leaves.ranges) {
        EXPECT_TRUE(range.count == 0 || range.first == next);
        next += range.count;
      }
      EXPECT_EQ(next, groups);
      EXPECT_EQ(leaves.ranges.size(), static_cast<std::size_t>(ranks));
    }
}

TEST(Groups, RanksWithOneGroupShareItsMicrobatches) {
  const Options options{
      .strategy = Strategy::local_sgd, .microbatches = 12, .microbatch_size = 2, .local_sgd = {.groups = 2}};
  const auto plan = plan_of_group(options, 4);
  EXPECT_EQ(plan.microbatches, 6);
  EXPECT_EQ(plan.global_batch(), 12);
  EXPECT_EQ(plan.ranges.front(), (comm::LeafRange{0, 2}));
  EXPECT_EQ(plan.ranges.back(), (comm::LeafRange{5, 1}));
}

TEST(Groups, AMeshConnectsTheRanksOfEach) {
  world::run_threads(3, [](world::World& world) {
    comm::run_connected(world, {}, [](comm::Communicator& communicator) {
      const Mesh mesh(communicator, {.data = 3, .groups = 2});
      EXPECT_EQ(&mesh.data(), &communicator);
      EXPECT_EQ(mesh.summing().size(), communicator.rank() == Rank(0) ? 1 : 2);
      EXPECT_EQ(mesh.groups(), (comm::LeafRange{communicator.rank() == Rank(0) ? 0 : 1, 1}));
    });
  });
}
}  // namespace
}  // namespace distdl::parallel
