// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>

#include <gmock/gmock.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/sum_tree.hpp>

namespace distdl::comm {
namespace {
using ::testing::ElementsAre;

int covered_leaves(const std::vector<TreeNode>& nodes, LeafRange range, int leaves) {
  int next = range.first;
  for (TreeNode node : nodes) {
    const LeafRange part = leaves_of(node, leaves);
    EXPECT_EQ(part.first, next) << "a gap or an overlap";
    EXPECT_GT(part.count, 0);
    next += part.count;
  }
  return next - range.first;
}

/// Fewest nodes by trying all: best[e] for the leaves from range.first to e.
int fewest_nodes(LeafRange range, int leaves) {
  std::vector<int> best(range.count + 1, 1 << 20);
  best[0] = 0;
  for (int at = 0; at < range.count; ++at)
    for (int level = 0; level <= root_level(leaves); ++level) {
      const int first = range.first + at;
      if (first % (1 << level) != 0) continue;
      const int count = leaves_of({level, first >> level}, leaves).count;
      if (at + count <= range.count) best[at + count] = std::min(best[at + count], best[at] + 1);
    }
  return best[range.count];
}

TEST(SumTree, RootCoversAllLeaves) {
  EXPECT_EQ(root_level(1), 0);
  EXPECT_EQ(root_level(2), 1);
  EXPECT_EQ(root_level(5), 3);
  EXPECT_EQ(root_level(8), 3);
  EXPECT_EQ(root_level(9), 4);
  for (int leaves = 1; leaves <= 64; ++leaves)
    EXPECT_EQ(leaves_of({root_level(leaves), 0}, leaves), (LeafRange{0, leaves}));
}

TEST(SumTree, NodeAtTheEndHoldsTheLeavesThereAre) {
  EXPECT_EQ(leaves_of({2, 1}, 6), (LeafRange{4, 2}));
  EXPECT_EQ(leaves_of({1, 3}, 6).count, 0);
}

TEST(SumTree, CoverIsExactAndTheFewestForEveryRange) {
  for (int leaves = 1; leaves <= 64; ++leaves)
    for (int first = 0; first <= leaves; ++first)
      for (int count = 0; first + count <= leaves; ++count) {
        const LeafRange range{first, count};
        const auto nodes = cover(range, leaves);
        ASSERT_EQ(covered_leaves(nodes, range, leaves), count);
        ASSERT_EQ(static_cast<int>(nodes.size()), fewest_nodes(range, leaves))
            << first << "+" << count << "/" << leaves;
      }
}

TEST(SumTree, CoverTakesTheLowestOfEqualNodes) {
  EXPECT_THAT(cover({4, 2}, 6), ElementsAre(TreeNode{1, 2}));
  EXPECT_THAT(cover({0, 3}, 8), ElementsAre(TreeNode{1, 0}, TreeNode{0, 2}));
  EXPECT_THAT(cover({4, 1}, 5), ElementsAre(TreeNode{0, 4}));
}

float serial_sum(TreeNode node, const std::vector<float>& values) {
  const int leaves = static_cast<int>(values.size());
  if (node.level == 0) return values[node.index];
  const float left = serial_sum({node.level - 1, 2 * node.index}, values);
  const TreeNode right{node.level - 1, 2 * node.index + 1};
  return leaves_of(right, leaves).count ? left + serial_sum(right, values) : left;
}

TEST(SumTree, SummationGivesTheSerialBitsHoweverTheLeavesAreCut) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int trial = 0; trial < 2000; ++trial) {
    const int leaves = 1 + static_cast<int>(random() % 64);
    std::vector<float> values(leaves);
    for (float& value : values) value = uniform(random);
    std::vector<TreeNode> nodes;
    for (int first = 0; first < leaves;) {
      const int count = 1 + static_cast<int>(random() % (leaves - first));
      for (TreeNode node : cover({first, count}, leaves)) nodes.push_back(node);
      first += count;
    }
    std::shuffle(nodes.begin(), nodes.end(), random);
    std::vector<float> partial;
    for (TreeNode node : nodes) partial.push_back(serial_sum(node, values));
    const Summation plan = summation(nodes, leaves);
    for (auto [into, from] : plan.additions) partial[into] += partial[from];
    ASSERT_EQ(partial[plan.result], serial_sum({root_level(leaves), 0}, values)) << leaves << " leaves";
  }
}

TEST(SumTree, SummationRefusesGapsAndOverlaps) {
  EXPECT_THROW(summation(std::vector<TreeNode>{{0, 0}}, 2), ConfigError);
  EXPECT_THROW(summation(std::vector<TreeNode>{{1, 0}, {0, 1}}, 2), ConfigError);
  EXPECT_THROW(cover({3, 3}, 5), ConfigError);
}

}  // namespace
}  // namespace distdl::comm
