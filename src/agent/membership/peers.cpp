// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/agent/membership/peers.hpp>

namespace distdl::agent {

Peers::Peers(NodeId self, std::size_t nodes, const Rules& rules) : self_(self), rules_(rules) {
  grow(nodes);
  for (Status& status : statuses_)
    for (std::size_t k = 0; k < nodes; ++k) status.decision.members.emplace_back(static_cast<std::uint32_t>(k));
  own().hears[self_.value] = true;
}

void Peers::grow(std::size_t nodes) {
  for (std::size_t known = statuses_.size(); known < nodes; ++known) {
    statuses_.emplace_back().node = NodeId(static_cast<std::uint32_t>(known));
    arrivals_.emplace_back();
  }
  for (Status& status : statuses_) status.hears.resize(statuses_.size());
}

void Peers::receive(const Status& status) {
  const std::size_t nodes = status.hears.size();  // as its sender knows
  if (status.node == self_ || status.node.value >= nodes || nodes > kMostNodes) return;
  if (!is_valid(status.decision, nodes)) return;
  grow(nodes);
  Status& known = statuses_[status.node.value];
  if (status.sequence <= known.sequence) return;
  known = status;
  known.hears.resize(statuses_.size());
  arrivals_[status.node.value].is_new = true;
}

void Peers::advance(Clock::time_point now) {
  const bool is_first = !now_;
  const Clock::time_point before = now_.value_or(now);
  const Clock::duration unseen = std::max(Clock::duration::zero(), now - before - rules_.heartbeat);
  now_ = now;
  for (Arrival& arrival : arrivals_) {
    if (std::exchange(arrival.is_new, false) && !is_first)
      arrival = {false, before, unseen};
    else
      arrival.excused += unseen;
  }
  for (const Status& status : statuses_) own().hears[status.node.value] = is_younger(status.node, rules_.dead);
}

bool Peers::is_heard(NodeId node) const {
  const Arrival& arrival = arrivals_[node.value];
  return node == self_ || (arrival.last && *now_ - *arrival.last - arrival.excused < rules_.dead);
}

bool Peers::is_younger(NodeId node, Milliseconds age) const {
  const Arrival& arrival = arrivals_[node.value];
  return node == self_ || (arrival.last && *now_ - *arrival.last < age);
}

bool Peers::are_connected(NodeId a, NodeId b) const {
  return a == b || (of(a).hears[b.value] && of(b).hears[a.value]);
}

std::size_t Peers::missing(NodeId node, const std::vector<NodeId>& nodes) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(nodes, [&](NodeId other) { return !are_connected(node, other); }));
}

std::vector<NodeId> Peers::connected(std::vector<NodeId> first, const std::vector<NodeId>& then) const {
  // The largest such set is hard to find (maximum clique). Leaving out the worst connected node again and again finds
  // it where one node or one link is broken, or where the nodes fall into parts.
  std::ranges::sort(first);
  while (!first.empty()) {
    std::vector<std::size_t> missing_links;
    missing_links.reserve(first.size());
    for (NodeId node : first) missing_links.push_back(missing(node, first));
    const auto worst = std::max_element(missing_links.rbegin(), missing_links.rend());  // the last one of several
    if (*worst == 0) break;
    first.erase(first.begin() + (missing_links.rend() - worst - 1));
  }
  for (NodeId node : then)
    if (missing(node, first) == 0) first.push_back(node);
  return first;
}

}  // namespace distdl::agent
