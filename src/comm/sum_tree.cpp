// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include <distdl/base/errors.hpp>
#include <distdl/comm/sum_tree.hpp>

namespace distdl::comm {
namespace {

class Summing {
 public:
  Summing(std::span<const TreeNode> nodes, int leaves) : nodes_(nodes), leaves_(leaves) {}

  /// Index of the value that holds the sum over `node` after the additions noted so far.
  int sum(TreeNode node) {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i] == node) {
        ++used_;
        return static_cast<int>(i);
      }
    require(node.level > 0, "no partial sum contains leaf {} of {}: the ranges of the ranks must cover every leaf once",
            node.index, leaves_);
    const TreeNode left{node.level - 1, 2 * node.index};
    const TreeNode right{node.level - 1, 2 * node.index + 1};
    const int into = sum(left);
    if (leaves_of(right, leaves_).count > 0) additions_.push_back({into, sum(right)});
    return into;
  }

  std::vector<Addition> finish() {
    require(used_ == nodes_.size(),
            "two partial sums contain the same leaves: the ranges of the ranks must be disjoint");
    return std::move(additions_);
  }

 private:
  std::span<const TreeNode> nodes_;
  int leaves_;
  std::size_t used_ = 0;
  std::vector<Addition> additions_;
};

}  // namespace

int root_level(int leaves) {
  int level = 0;
  while ((1LL << level) < leaves) ++level;
  return level;
}

LeafRange leaves_of(TreeNode node, int leaves) {
  const long long width = 1LL << node.level;
  const int first = static_cast<int>(std::min<long long>(node.index * width, leaves));
  const int end = static_cast<int>(std::min<long long>((node.index + 1) * width, leaves));
  return {first, end - first};
}

namespace {
template <class Visit>
void each_of_cover(LeafRange range, int leaves, const Visit& visit) {
  require(range.first >= 0 && range.count >= 0 && range.first + range.count <= leaves,
          "leaves {} to {} are not in a tree of {} leaves", range.first, range.first + range.count, leaves);
  const int end = range.first + range.count;
  for (int first = range.first; first < end;) {
    TreeNode node{0, first};
    for (TreeNode wider = node; wider.index % 2 == 0 && wider.level < root_level(leaves);) {
      wider = {wider.level + 1, wider.index / 2};
      const LeafRange covered = leaves_of(wider, leaves);
      if (covered.first + covered.count > end) break;
      if (covered.count > leaves_of(node, leaves).count) node = wider;
    }
    visit(node);
    first += leaves_of(node, leaves).count;
  }
}
}  // namespace

std::vector<TreeNode> cover(LeafRange range, int leaves) {
  std::vector<TreeNode> nodes;
  each_of_cover(range, leaves, [&](TreeNode node) { nodes.push_back(node); });
  return nodes;
}

std::size_t cover_size(LeafRange range, int leaves) {
  std::size_t size = 0;
  each_of_cover(range, leaves, [&](TreeNode) { ++size; });
  return size;
}

Summation summation(std::span<const TreeNode> nodes, int leaves) {
  require(leaves > 0, "a sum has {} leaves, but needs at least one", leaves);
  Summing summing(nodes, leaves);
  const int result = summing.sum({root_level(leaves), 0});
  return {summing.finish(), result};
}

RangeSummation summation(std::span<const TreeNode> nodes, LeafRange range, int leaves) {
  Summing summing(nodes, leaves);
  std::vector<int> results;
  for (const TreeNode node : cover(range, leaves)) results.push_back(summing.sum(node));
  return {summing.finish(), std::move(results)};
}

}  // namespace distdl::comm
