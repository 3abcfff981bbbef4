// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <distdl/agent/cause.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::agent {

inline bool contains(const std::vector<NodeId>& nodes, NodeId node) {
  return std::ranges::find(nodes, node) != nodes.end();
}

/// Largest number of nodes of a launch, with those that join it: a greater number is a damaged one.
constexpr std::size_t kMostNodes = 16384;

/// Generations in a row in which ranks of this node failed, without progress of the run.
struct NodeFailures {
  NodeId node;
  std::uint32_t count = 0;
  friend bool operator==(const NodeFailures&, const NodeFailures&) = default;
};

/// Decision of the agents of a launch: the ranks of the next generation, or the end of the launch. The ledger holds
/// exactly one decision for each generation from 1.
struct Decision {
  Generation generation;           ///< 0: before the first decision; its members are all nodes
  std::vector<NodeId> members;     ///< the nodes that run ranks, in the order of their ranks; none at the end
  std::vector<NodeId> spares;      ///< other nodes that could run ranks
  std::optional<int> end;          ///< the launch ends with this exit code; nothing: it goes on
  std::string cause;               ///< why the generation before ended, for people
  Origin origin;                   ///< the same, as far as it is known
  std::optional<NodeId> proposer;  ///< whose proposal it was; it reports the decision to the journal
  /// Nodes that run no more ranks in this launch: an audit found wrong bits there, or they have joined and no ranks
  /// could begin with them.
  std::vector<NodeId> wrong;
  // For the proposer of the next generation.
  std::vector<NodeId> newcomers;            ///< members that have joined and with which no step was made yet
  std::int64_t progress = -1;               ///< the furthest progress of any node before this generation
  std::uint32_t failures = 0;               ///< generations in a row that failed without progress
  std::uint32_t losses = 0;                 ///< generations in a row that lost a node without progress
  std::vector<NodeFailures> node_failures;  ///< failures of the nodes that have any
  std::int64_t crashed_after = -1;  ///< the last step of the generation before, if its ranks crashed; -1: had not begun

  friend bool operator==(const Decision&, const Decision&) = default;
};

/// True if a launch with so many nodes can have this decision: what comes from other processes may be damaged.
inline bool is_valid(const Decision& decision, std::size_t nodes) {
  const auto exists = [nodes](NodeId node) { return node.value < nodes; };
  return decision.members.empty() == decision.end.has_value() && std::ranges::all_of(decision.members, exists) &&
         std::ranges::all_of(decision.spares, exists) && std::ranges::all_of(decision.wrong, exists) &&
         std::ranges::all_of(decision.newcomers, exists) && (!decision.origin.node || exists(*decision.origin.node));
}

}  // namespace distdl::agent
