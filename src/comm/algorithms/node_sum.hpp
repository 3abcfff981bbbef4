// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/comm/algorithms/pairwise_sum.hpp>

namespace distdl::comm {

/// Nodes numbered 0, 1, ... in the order of their first ranks.
struct Nodes {
  explicit Nodes(const Problem& problem);
  std::size_t widest() const;  ///< most ranks of one node

  std::vector<int> of;                  ///< each rank's
  std::vector<std::vector<int>> ranks;  ///< of each node, ascending
};

/// The sum between nodes, where each node's ranks share the work: every partition has a carrier on each node. Few long
/// partitions go pairwise; short ones between many nodes, by doubling. What happens within a node is left to the
/// derived classes: before, the sums that the node can finish alone; after, the results for all of its ranks. (Slices
/// per local rank: as in Bayatpour et al., "Scalable reduction collectives with data partitioning-based multi-leader
/// design", SC 2017.)
class NodeSum : public PairwiseSum {
 public:
  NodeSum(ScheduleBuilder& build, const Nodes& nodes);
  void run() override;

 protected:
  bool alone() const { return ranks_.size() == 1; }
  const std::vector<int>& ranks() const { return ranks_; }
  const std::vector<std::size_t>& own_sums() const { return own_; }

  /// Short partitions and lots of nodes, each with one sum.
  bool can_double() const;
  bool others_want_all() const;
  /// A sum that is nothing but an own operand needs no preparation.
  bool is_operand(std::size_t k) const;
  /// Where prepare() puts a sum, unless it is an operand.
  Block prepared(std::size_t partition, std::size_t k, int owner, std::size_t t) const;
  Block value(std::size_t partition, std::size_t k, int owner, std::size_t t) const override;
  /// Those whose pieces of a partition differ: all of them, or of a short partition one that wants it.
  std::vector<int> owners(std::size_t partition) const;
  std::vector<std::uint16_t> reductions_within(const GroupSum& sum) const;

 private:
  void double_partition(std::size_t partition);

  std::vector<int> ranks_;
  std::vector<std::size_t> own_;  ///< sums of this node
  std::size_t prepared_ = 0;      ///< in scratch
};

/// By carriers that read and write the operands and results of the node's ranks in shared memory.
void direct_node_sum(ScheduleBuilder& build);
/// Through the shared areas, in chunks.
void staged_node_sum(ScheduleBuilder& build);

constexpr std::size_t kSharedHalves = 2;  ///< of a shared area: one is filled while the other is emptied

}  // namespace distdl::comm
