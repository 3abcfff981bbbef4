// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace distdl::comm {

/// The one summation order of distdl: a binary tree over `leaves` leaves. Node (level, index) covers the leaves
/// [index * 2^level, min((index + 1) * 2^level, leaves)); its value is left child + right child, or the left child
/// alone where no leaf lies right. The order of additions therefore depends on the number of leaves only, never on who
/// computed what; any assignment of leaves to ranks gives the same bits.
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

/// The smallest tree level whose single node covers all leaves.
int root_level(int leaves);
LeafRange leaves_of(TreeNode node, int leaves);
/// The fewest nodes that together cover exactly `range`, in leaf order: the partial sums that a rank which owns `range`
/// can finish alone.
std::vector<TreeNode> cover(LeafRange range, int leaves);

}  // namespace distdl::comm
