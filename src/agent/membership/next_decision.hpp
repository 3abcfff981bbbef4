// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/agent/decision.hpp>
#include <distdl/agent/membership/rules.hpp>
#include <distdl/agent/status.hpp>
#include <distdl/base/exit_codes.hpp>

namespace distdl::agent {

inline constexpr int kOk = static_cast<int>(ExitCode::ok);
inline constexpr int kPeerLost = static_cast<int>(ExitCode::peer_lost);
inline constexpr int kRequeue = static_cast<int>(ExitCode::requeue);
inline constexpr int kCorruption = static_cast<int>(ExitCode::corruption);
inline constexpr int kStopped = static_cast<int>(ExitCode::stopped);
inline constexpr int kSuperseded = static_cast<int>(ExitCode::superseded);
inline constexpr int kConfig = static_cast<int>(ExitCode::config);

/// Facts that a proposer has when a generation is over.
struct Evidence {
  /// Decision on the generation that is over; on generation 0 when the launch begins.
  const Decision& last;
  const std::vector<Status>& statuses;   ///< the newest one of each node, in the order of the nodes
  const std::vector<NodeId>& connected;  ///< nodes that can run ranks now, each connected with each other one
  std::string fault = {};                ///< why it is over; empty: the ranks ended without fault
  bool stop = false;                     ///< the launch is to stop
  bool regrow = false;                   ///< the ranks were asked to stop so that more nodes take part
};

struct NextDecision {
  Decision decision;
  bool lacks_nodes = false;  ///< it ends the launch because nodes are missing, which may come back
};

/// The decision that follows from `evidence`, a pure function.
NextDecision next_decision(const Evidence& evidence, const Rules& rules);

/// The members of the generation after `last`; none if `connected` has too few nodes, or none of the launch's own. A
/// spare takes the place of a member that is missing, or that failed `rules.node_tries` times by `failures`. At most
/// `rules.own_wanted` of the launch's own nodes are members, and at least one is.
std::vector<NodeId> next_members(const Decision& last, const std::vector<NodeId>& connected,
                                 const std::vector<NodeFailures>& failures, const Rules& rules);

/// Failures for next_members(): `failures`, and nodes that are to be drained, which count like those that have failed
/// too often.
std::vector<NodeFailures> unfit_nodes(std::vector<NodeFailures> failures, const std::vector<Status>& statuses,
                                      const Rules& rules);

/// True if this node's ranks of this generation have ended by themselves, without fault: with ok or requeue.
bool has_ended_well(const Status& status, Generation generation);
/// True if that holds for all members of `decision`. False for generation 0, which has no ranks.
bool is_complete(const Decision& decision, const std::vector<Status>& statuses);

}  // namespace distdl::agent
