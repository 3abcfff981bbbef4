// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <distdl/agent/membership/rules.hpp>
#include <distdl/agent/status.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::agent {

/// The newest status of every node, and how long ago it came: the failure detector. Chandra and Toueg, "Unreliable
/// failure detectors for reliable distributed systems", 1996.
class Peers {
 public:
  /// `rules` must outlive this object.
  Peers(NodeId self, std::size_t nodes, const Rules& rules);

  /// Takes a status, unless a newer one of the same node is known or it is none of this launch. It may be of a node
  /// that has joined the launch, or report one.
  void receive(const Status& status);
  /// Makes room for at least so many nodes. Nothing is known of new ones.
  void grow(std::size_t nodes);
  /// Sets the present time; statuses that were received since the last call count as received right after that call. If
  /// more than a heartbeat period has passed since then, this process did not run for a while and may have missed
  /// statuses: only one period of it counts as silence. Before the first call the time of arrival is not known: such
  /// statuses do not count as heard.
  void advance(Clock::time_point now);

  Status& own() { return statuses_[self_.value]; }
  const Status& own() const { return statuses_[self_.value]; }
  const Status& of(NodeId node) const { return statuses_[node.value]; }
  /// The newest statuses, in the order of the nodes; sequence 0: none came yet.
  const std::vector<Status>& all() const { return statuses_; }
  /// True if a status came within Rules::dead, without silence that does not count.
  bool is_heard(NodeId node) const;
  /// True if a status came within Rules::suspect.
  bool is_fresh(NodeId node) const { return is_younger(node, rules_.suspect); }
  /// True if each of the two hears the other, according to their newest statuses.
  bool are_connected(NodeId a, NodeId b) const;
  /// Nodes of which each is connected with each other one: as many of `first` as can be found quickly, then those of
  /// `then` that fit. Ascending within both.
  std::vector<NodeId> connected(std::vector<NodeId> first, const std::vector<NodeId>& then) const;

 private:
  struct Arrival {
    bool is_new = false;                    ///< since the last advance()
    std::optional<Clock::time_point> last;  ///< the earliest time at which it may have come
    Clock::duration excused{0};             ///< silence since then that does not count
  };
  bool is_younger(NodeId node, Milliseconds age) const;
  std::size_t missing(NodeId node, const std::vector<NodeId>& nodes) const;

  NodeId self_;
  const Rules& rules_;
  std::vector<Status> statuses_;
  std::vector<Arrival> arrivals_;
  std::optional<Clock::time_point> now_;
};

}  // namespace distdl::agent
