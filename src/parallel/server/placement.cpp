// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/placement.hpp>

namespace distdl::parallel::server {
namespace {

/// Returns the best copy: that of the latest term, and of two the primary's, which has the latest updates.
const Inventory::Held* best_copy(int range, const std::map<Node, Inventory>& inventories, Node& holder) {
  const Inventory::Held* best = nullptr;
  for (const auto& [node, inventory] : inventories)
    for (const Inventory::Held& held : inventory.ranges) {
      if (held.range != range) continue;
      if (best && std::tie(held.term, held.is_primary) <= std::tie(best->term, best->is_primary)) continue;
      best = &held;
      holder = node;
    }
  return best;
}

std::optional<Node> least_loaded(const std::map<Node, int>& load, Node except) {
  std::optional<Node> best;
  for (const auto& [node, ranges] : load)
    if (node != except && (!best || ranges < load.at(*best))) best = node;
  return best;
}

}  // namespace

std::vector<Holders> first_placement(int ranges, const std::vector<Node>& servers, int partner_distance) {
  require(!servers.empty(), "a parameter server without servers: at least one is expected");
  std::vector<Holders> placement;
  for (std::size_t range = 0; range < static_cast<std::size_t>(ranges); ++range) {
    Holders holders{servers[range % servers.size()], {}, Term(1)};
    if (partner_distance > 0 && servers.size() > 1)
      holders.partner = servers[(range + static_cast<std::size_t>(partner_distance)) % servers.size()];
    placement.push_back(holders);
  }
  return placement;
}

int partner_distance(const std::vector<std::string>& hosts) {
  const auto on_one_host = [&](std::size_t distance) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < hosts.size(); ++i) count += hosts[i] == hosts[(i + distance) % hosts.size()] ? 1 : 0;
    return count;
  };
  std::size_t best = 1;
  for (std::size_t distance = 2; distance < hosts.size(); ++distance)
    if (on_one_host(distance) < on_one_host(best)) best = distance;
  return static_cast<int>(best);
}

std::optional<Holders> next_holders(const std::optional<Holders>& last, int range,
                                    const std::map<Node, Inventory>& inventories, const std::map<Node, int>& load,
                                    bool has_partners) {
  const auto is_there = [&](Node node) { return inventories.contains(node); };
  const auto is_whole = [&](const Holders& holders) {
    const bool is_alone = !has_partners || inventories.size() == 1;
    return is_there(holders.primary) && (holders.partner ? is_there(*holders.partner) : is_alone);
  };
  if (last && is_whole(*last)) return last;
  Node primary;
  const Inventory::Held* best = best_copy(range, inventories, primary);
  if (!best) return {};
  if (const Holders told{primary, best->partner, best->term}; best->is_primary && is_whole(told)) return told;
  const Term before = std::max(best->term, last ? last->term : Term(0));
  return Holders{primary, has_partners ? least_loaded(load, primary) : std::nullopt, Term(before.value + 1)};
}

}  // namespace distdl::parallel::server
