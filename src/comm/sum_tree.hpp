// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

namespace distdl::comm {

/// The one summation order of distdl: a binary tree over `leaves` leaves. Node (level, index) covers the leaves
/// [index * 2^level, min((index + 1) * 2^level, leaves)); its value is left child + right child, or the left child
/// alone where no leaf lies right. The order of additions therefore depends on the number of leaves only, never on
/// which rank computed what; any assignment of leaves to ranks gives the same bits.
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

/// The additions, in order, that turn partial sums into the sum over all leaves, which then lies in values[result].
struct Summation {
  std::vector<Addition> additions;
  int result = 0;
};

/// The smallest tree level whose single node covers all leaves. `leaves` is at least 1, here and below.
int root_level(int leaves);
/// Empty if the node lies right of all leaves.
LeafRange leaves_of(TreeNode node, int leaves);
/// The cover: the fewest nodes that together contain exactly the leaves of `range`, in leaf order. They are the partial
/// sums that a rank with `range` can finish alone. Of nodes that cover the same leaves, the lowest.
std::vector<TreeNode> cover(LeafRange range, int leaves);
std::size_t cover_size(LeafRange range, int leaves);
/// How to finish the sum, given values of `nodes`, in any order. Throws ConfigError unless they cover each leaf once.
Summation summation(std::span<const TreeNode> nodes, int leaves);

}  // namespace distdl::comm
