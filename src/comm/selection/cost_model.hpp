// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <distdl/comm/cost_table.hpp>
#include <distdl/comm/schedule.hpp>

namespace distdl::comm {

/// The placement of ranks on nodes, as far as costs depend on it.
class Placement {
 public:
  explicit Placement(const Problem& problem);
  int ranks() const { return ranks_; }
  int nodes() const { return nodes_; }
  int widest() const { return widest_; }                               ///< most ranks of one node
  int rounds() const { return static_cast<int>(exchanging_.size()); }  ///< log2(ranks), rounded up

  /// The most messages that leave one node at a time when rank r exchanges with rank r xor 2^k, with rank r + 2^k, or,
  /// in a binomial tree, with its parent at distance 2^k.
  int exchanging(int k) const { return exchanging_[static_cast<std::size_t>(k)]; }
  int shifting(int k) const { return shifting_[static_cast<std::size_t>(k)]; }
  int climbing(int k) const { return climbing_[static_cast<std::size_t>(k)]; }

 private:
  int ranks_ = 1, nodes_ = 1, widest_ = 1;
  std::vector<int> exchanging_, shifting_, climbing_;
};

/// The costs of the parts of a collective. Messages follow the models of Hockney and LogP, as in the comparison of
/// MPI's algorithms by Thakur, Rabenseifner and Gropp (IJHPCA 2005). The ranks of a node share its network and its
/// memory. Each algorithm adds these costs to its predicted seconds. The prediction is meant to rank algorithms, not to
/// be accurate to the microsecond. `placement` must outlive the model.
struct CostModel {
  CostModel(const Problem& problem, const Choice& choice, const Placement& placement, const CostTable& table);

  Collective collective;
  bool staged;  ///< Choice::staged
  const Placement& at;
  CostTable costs;  ///< with the additional costs of ranks that share processors
  int ranks;
  double total;    ///< bytes of the vector, or of all slices together
  double slice;    ///< bytes of an average slice
  double segment;  ///< bytes sent at a time; 0: all at once

  /// Number of phases in which the operation gathers or sums towards owners, and in which it spreads results.
  int phases_in() const { return is_sum(collective) ? 1 : 0; }
  int phases_out() const;

  /// Each rank sends a message and receives one, which is more work than that of a single message. `leaving` messages
  /// leave the busiest node.
  double hop(double bytes, int leaving) const;
  /// The overhead of one message.
  double overhead() const { return at.nodes() > 1 ? costs.between.overhead : costs.within.overhead; }
  /// Each rank receives `bytes` from its own node. They are copied twice, and beyond the caches all ranks of the node
  /// share the memory's bandwidth. `span`: bytes of memory that a rank works on meanwhile; those of the whole operation
  /// by default, as for the ways through shared memory, with which this one is compared.
  double near(double bytes) const { return near(bytes, std::max(bytes, touched(at.widest(), total))); }
  double near(double bytes, double span) const;
  /// Every rank sends `bytes` to every other rank.
  double everyone(double bytes) const;
  /// Root sends `bytes` to each other rank, or receives them.
  double one_to_all(double bytes) const;

  /// A rank and the other ranks of its node read and write `touched` bytes each, in `span` bytes of memory each.
  double work(double touched, double span, double speed) const;
  double add(double bytes) const { return work(3 * bytes, 2 * bytes, costs.reduce); }
  double copy(double bytes) const { return work(2 * bytes, 2 * bytes, costs.copy); }
  /// A rank reads data that ranks of its node have just written.
  double fetch(double bytes) const { return work(bytes, bytes, costs.share); }
  /// A transfer whose data are then added: one after the other, or segment by segment.
  double overlapped(double transfer, double adding, double bytes) const;
  /// Bytes that each of `local` ranks of one node reads and writes in the operation on `bytes`.
  double touched(int local, double bytes) const;
  /// The operation on `bytes` by `local` ranks of one node, directly in each other's memory or in pieces through the
  /// shared areas.
  double within_node(int local, double bytes, bool in_pieces) const;
};

}  // namespace distdl::comm
