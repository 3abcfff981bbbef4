// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// Recursive doubling along any binary tree. At each node, the ranks of the left and the right child exchange their
/// sums. If one side has fewer ranks, each of them exchanges with one rank of the other side. Its sum then spreads
/// among the other ranks of that side in a binomial tree, which begins as soon as the sum has arrived. Up to 1,024
/// ranks in rank order this takes at most ceil(log2 n) + 4 rounds (at 575 ranks), and log2 n for a power of two.
/// (Thakur et al. 2005 fold surplus ranks into a power of two instead, which changes the order of additions.)
class DoublingSum {
 public:
  /// Member i contributes the sum over leaves[i] of a tree of `all` leaves; members are in leaf order. `count` is in
  /// elements.
  DoublingSum(ScheduleBuilder& build, std::vector<int> members, std::span<const LeafRange> leaves, int all,
              std::size_t count);

  /// Sums this rank's `own` into the results. results[0] also stores intermediate sums.
  void run(Block own, std::span<const Block> results);

 private:
  struct Node {
    int first = 0, middle = 0, end = 0;  ///< members
    int left = -1, right = -1;           ///< nodes
    int ready = 0;                       ///< round after which all members have its sum
    int size() const { return end - first; }
  };
  /// A message with the sum of a node.
  struct Hop {
    int round = 0;
    int level = 0;  ///< index into path_
    int peer = 0;   ///< member
    bool sending = false;
    bool own = false;  ///< the sum of the own child, not that of the other child
  };

  void plan_tree(std::span<const LeafRange> leaves, int all);
  void reduce_newest(std::vector<int>& open);
  void plan_path(int root);
  void plan_hops(int level);
  Block arrival(int level) const;
  void begin(const Hop& hop, const Block& own, int group);

  ScheduleBuilder& build_;
  std::vector<int> members_;
  std::size_t count_;
  int self_;
  std::vector<Node> nodes_;
  std::vector<int> path_;  ///< nodes with this rank, from the lowest sum to the sum of all
  std::vector<Hop> hops_;
  std::size_t arrivals_ = 0;
};

}  // namespace distdl::comm
