// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/comm/cost_table.hpp>
#include <distdl/comm/schedule.hpp>

namespace distdl::comm {

/// Who sits where, as far as costs depend on it.
class Placement {
 public:
  explicit Placement(const Problem& problem);
  int ranks() const { return ranks_; }
  int nodes() const { return nodes_; }
  int widest() const { return widest_; }                               ///< most ranks of one node
  int rounds() const { return static_cast<int>(exchanging_.size()); }  ///< log2(ranks), rounded up

  /// Most messages that leave one node at a time when rank r talks to rank r xor 2^k, to rank r + 2^k, and, in a
  /// binomial tree, to its parent at distance 2^k.
  int exchanging(int k) const { return exchanging_[static_cast<std::size_t>(k)]; }
  int shifting(int k) const { return shifting_[static_cast<std::size_t>(k)]; }
  int climbing(int k) const { return climbing_[static_cast<std::size_t>(k)]; }

 private:
  int ranks_ = 1, nodes_ = 1, widest_ = 1;
  std::vector<int> exchanging_, shifting_, climbing_;
};

/// What the parts of a collective cost: messages by Hockney's and LogP's models, as Thakur, Rabenseifner and Gropp
/// (IJHPCA 2005) compare MPI's algorithms; the ranks of a node share its network and its memory. Each algorithm adds
/// these up to the seconds that it is expected to take: right in the order of the algorithms rather than to the
/// microsecond. `placement` must outlive the model.
struct CostModel {
  CostModel(const Problem& problem, const Choice& choice, const Placement& placement, const CostTable& costs);

  Collective collective;
  bool staged;  ///< Choice::staged
  const Placement& at;
  CostTable costs;  ///< with what ranks lose that share processors
  int ranks;
  double total;    ///< bytes of the vector, or of all slices together
  double slice;    ///< bytes of an average one
  double segment;  ///< bytes sent at a time; 0: all at once

  /// How often the operation gathers or sums towards owners, and how often it spreads results.
  int phases_in() const { return is_sum(collective) ? 1 : 0; }
  int phases_out() const;

  /// Each rank sends a message and receives one, which is more work than the latency of one holds; `leaving` of them go
  /// out of the busiest node.
  double hop(double bytes, int leaving) const;
  /// Of one message.
  double overhead() const { return at.nodes() > 1 ? costs.between.overhead : costs.within.overhead; }
  /// Each rank receives `bytes` from its own node: copied twice, beyond the caches at the cost of everyone's memory.
  double near(double bytes) const { return near(bytes, bytes); }
  double near(double bytes, double span) const;
  /// Everyone sends `bytes` to everyone.
  double everyone(double bytes) const;
  /// Root sends `bytes` to each other rank, or receives them.
  double one_to_all(double bytes) const;

  /// A rank reads and writes `touched` bytes, others of its node likewise, over `span` bytes of memory each.
  double work(double touched, double span, double speed) const;
  double add(double bytes) const { return work(3 * bytes, 2 * bytes, costs.reduce); }
  double copy(double bytes) const { return work(2 * bytes, 2 * bytes, costs.copy); }
  /// A rank reads what ranks of its node have just written.
  double fetch(double bytes) const { return work(bytes, bytes, costs.share); }
  /// A transfer whose data are then added: one after the other, or segment by segment.
  double overlapped(double transfer, double adding, double bytes) const;
  /// The operation on `bytes` by `local` ranks of one node, straight on each other's memory, or in pieces through the
  /// shared areas.
  double within_node(int local, double bytes, bool in_pieces) const;
};

}  // namespace distdl::comm
