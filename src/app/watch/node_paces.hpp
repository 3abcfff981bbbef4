// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include <distdl/records/shares.hpp>

namespace distdl::app {

/// How fast the ranks of a node were, by the rows `shares` of the journal. A slowdown is the time that the slowest rank
/// of the node takes for a microbatch, divided by that of the median rank of the run; 1: as fast.
struct NodePace {
  std::string host = {};
  int ranks = 0;            ///< number of ranks in the last row that has the node
  double slowdown = 1;      ///< slowdown in that row
  double worst = 1;         ///< greatest slowdown of all rows
  int rows = 0;             ///< number of rows that have the node
  int slowest = 0;          ///< number of rows in which its slowdown was the greatest of all nodes and noticeable
  bool is_present = false;  ///< true: the last row of all has it
};

/// Collects the paces of all nodes that a run has had.
class NodePaces {
 public:
  void add(const records::SharesKnown& shares);
  /// The slowest node first; nodes that are no longer there at the end.
  std::vector<NodePace> nodes() const;

 private:
  std::map<std::string, NodePace> nodes_;  ///< by host
};

}  // namespace distdl::app
