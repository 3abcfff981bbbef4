// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/comm/cost_table.hpp>
#include <distdl/comm/schedule/schedule.hpp>

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

/// Seconds that a collective is expected to take by the costs of its parts: messages by Hockney's and LogP's models, as
/// Thakur, Rabenseifner and Gropp (IJHPCA 2005) compare MPI's algorithms; the ranks of a node share its network and its
/// memory. Right in the order of the algorithms rather than to the microsecond. `choice` must be possible.
double predict_seconds(const Problem& problem, const Choice& choice, const Placement& placement,
                       const CostTable& costs);

}  // namespace distdl::comm
