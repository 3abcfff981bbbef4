// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace distdl::comm {

/// The summation order of distdl: a binary tree over `leaves` leaves. Node (level, index) covers the leaves [index *
/// 2^level, min((index + 1) * 2^level, leaves)). Its value is left child + right child, or the left child if the right
/// child covers no leaf. The order of additions therefore depends only on the number of leaves. Any assignment of
/// leaves to ranks gives the same bits.
struct TreeNode {
  int level = 0;
  int index = 0;
  bool operator==(const TreeNode&) const = default;
};

/// Leaves [first, first + count) of the tree.
struct LeafRange {
  int first = 0;
  int count = 0;
  bool operator==(const LeafRange&) const = default;
};

/// values[into] += values[from].
struct Addition {
  int into = 0;
  int from = 0;
  bool operator==(const Addition&) const = default;
};

/// The additions, in order, that turn partial sums into the sum over all leaves. The sum is then in values[result].
struct Summation {
  std::vector<Addition> additions;
  int result = 0;
};

/// The additions for partial sums of some leaves: results[i] is the index of the value of cover(range, leaves)[i].
struct RangeSummation {
  std::vector<Addition> additions;
  std::vector<int> results;
};

/// The smallest tree level with a single node that covers all leaves. In all functions `leaves` is at least 1.
int root_level(int leaves);
/// The leaves that a node covers. Empty if the node is to the right of all leaves.
LeafRange leaves_of(TreeNode node, int leaves);
/// The cover: the fewest nodes that together contain exactly the leaves of `range`, in leaf order. They are the partial
/// sums that a rank with `range` can finish alone. If several nodes cover the same leaves, the lowest one is used.
std::vector<TreeNode> cover(LeafRange range, int leaves);
std::size_t cover_size(LeafRange range, int leaves);
/// The additions that finish the sum from the values of `nodes`, which may be in any order. Throws ConfigError unless
/// they cover each leaf once.
Summation summation(std::span<const TreeNode> nodes, int leaves);
/// The additions for `nodes` that cover each leaf of `range` once.
RangeSummation summation(std::span<const TreeNode> nodes, LeafRange range, int leaves);

}  // namespace distdl::comm
