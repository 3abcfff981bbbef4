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
  /// Mean time by which its slowest rank computes longer in a step than the median rank, as a share of a step.
  double cost = 0;

  /// True if it made steps noticeably longer, according to enough rows: somebody is always the slowest.
  bool is_straggler() const {
    constexpr double kNoticeable = 0.05;
    constexpr int kEnoughRows = 3;
    return rows >= kEnoughRows && cost >= kNoticeable;
  }
};

/// Collects the paces of all nodes that a run has had.
class NodePaces {
 public:
  void add(const records::SharesKnown& shares);
  /// The slowest node first; nodes that are no longer there at the end. `step_seconds`: how long a step takes; 0: not
  /// known, and no node has a cost.
  std::vector<NodePace> nodes(double step_seconds) const;

 private:
  struct Node {
    NodePace pace;
    double excess_seconds = 0;  ///< sum over its rows
  };
  std::map<std::string, Node> nodes_;  ///< by host
};

}  // namespace distdl::app
