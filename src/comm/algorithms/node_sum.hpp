// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/comm/algorithms/pairwise_sum.hpp>

namespace distdl::comm {

/// Nodes with the numbers 0, 1, ..., in the order of their first ranks.
struct Nodes {
  explicit Nodes(const Problem& problem);
  std::size_t widest() const;  ///< most ranks of one node

  std::vector<int> of;                  ///< node of each rank
  std::vector<std::vector<int>> ranks;  ///< ranks of each node, ascending
};

/// The sum between nodes. Each node's ranks share the work: every partition has a carrier on each node. Few long
/// partitions are summed pairwise; short ones between many nodes by doubling. The derived classes do the work within a
/// node: before, the sums that the node can finish alone; afterwards, the results for all of its ranks. (Slices per
/// local rank are as in Bayatpour et al., "Scalable reduction collectives with data partitioning-based multi-leader
/// design", SC 2017.)
class NodeSum : public PairwiseSum {
 public:
  NodeSum(ScheduleBuilder& build, const Nodes& nodes);
  void run() override;

 protected:
  bool alone() const { return ranks_.size() == 1; }
  const std::vector<int>& ranks() const { return ranks_; }
  const std::vector<std::size_t>& own_sums() const { return own_; }

  /// Whether partitions are short and there are many nodes with one sum each.
  bool can_double() const;
  bool others_want_all() const;
  /// Whether a sum is a single own operand, so that it needs no preparation.
  bool is_operand(std::size_t k) const;
  /// The place in which prepare() stores a sum that is not an operand.
  Block prepared(std::size_t partition, std::size_t k, int owner, std::size_t t) const;
  Block value(std::size_t partition, std::size_t k, int owner, std::size_t t) const override;
  /// Groups with different pieces of a partition. For a short partition, one group that needs the result.
  std::vector<int> owners(std::size_t partition) const;
  std::vector<std::uint16_t> reductions_within(const GroupSum& sum) const;

 private:
  void double_partition(std::size_t partition);

  std::vector<int> ranks_;
  std::vector<std::size_t> own_;  ///< sums of this node
  std::size_t prepared_ = 0;      ///< offset in scratch memory
};

/// Carriers read and write the operands and results of the node's ranks in shared memory.
void direct_node_sum(ScheduleBuilder& build);
/// Data go through the shared areas in chunks.
void staged_node_sum(ScheduleBuilder& build);

constexpr std::size_t kSharedHalves = 2;  ///< halves of a shared area: one is filled while the other is read

}  // namespace distdl::comm
