// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <distdl/parallel/server/messages.hpp>

namespace distdl::parallel::server {

/// Returns the holders of each range at the beginning of a run: servers in turn, each with the one so many places
/// further as its partner; 0: there are no partners. Throws ConfigError without servers.
std::vector<Holders> first_placement(int ranges, const std::vector<Node>& servers, int partner_distance = 1);
/// Returns the least distance with which the fewest servers have their partner on their own host. `hosts`: hosts of the
/// servers.
int partner_distance(const std::vector<std::string>& hosts);

/// Returns the holders of one range, from the servers' inventories. `last`: the previous decision of this scheduler, if
/// any. A range keeps its holders as long as both are there; else the term increases, and the server with the fewest
/// ranges in `load` becomes the partner. Empty: no server has all of the range.
std::optional<Holders> next_holders(const std::optional<Holders>& last, int range,
                                    const std::map<Node, Inventory>& inventories, const std::map<Node, int>& load,
                                    bool has_partners = true);

}  // namespace distdl::parallel::server
