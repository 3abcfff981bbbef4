// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/agent/membership/pauses.hpp>

namespace distdl::agent {
namespace {

/// From this place on all nodes propose at the same time.
constexpr std::ptrdiff_t kMostTurns = 3;

/// Members that leave count for no part.
Milliseconds pause_of_part(const Evidence& evidence, const Rules& rules) {
  std::vector<NodeId> members = evidence.last.members;
  std::erase_if(members, [&](NodeId member) { return evidence.statuses[member.value].leave; });
  const auto& spares = evidence.last.spares;
  const auto is_here = [&](NodeId node) { return contains(evidence.connected, node); };
  const auto mine = static_cast<std::size_t>(std::ranges::count_if(members, is_here));
  const auto my_spares = static_cast<std::size_t>(std::ranges::count_if(spares, is_here));
  if (mine == 0) return rules.last_pause;
  if (2 * mine > members.size()) return Milliseconds(0);
  if (2 * mine < members.size()) return rules.minority_pause;
  if (2 * (mine + my_spares) > members.size() + spares.size()) return rules.half_pause;
  return rules.half_pause * (is_here(*std::ranges::min_element(members)) ? 2 : 4);
}

}  // namespace

std::optional<Milliseconds> pause_before_proposal(NodeId self, const Evidence& evidence, const NextDecision& next,
                                                  const Rules& rules) {
  const auto& connected = evidence.connected;
  const auto place = std::ranges::find(connected, self) - connected.begin();
  const Milliseconds turn = rules.turn * std::min(place, kMostTurns);
  const bool all_have_ended = is_complete(evidence.last, evidence.statuses);
  if (!contains(connected, self) && !(next.decision.end && all_have_ended)) return std::nullopt;
  // The run has finished or was told to stop: each part comes to the same decision.
  if (next.decision.end && all_have_ended && !next.lacks_nodes) return turn;
  const bool has_own = std::ranges::any_of(connected, [&](NodeId node) { return node.value < rules.own; });
  // If all have saved, an end for lack of nodes costs little, and comes as soon as another generation would.
  const bool may_be_last = next.lacks_nodes && (!all_have_ended || !has_own);
  return turn + (may_be_last ? rules.last_pause : pause_of_part(evidence, rules));
}

}  // namespace distdl::agent
