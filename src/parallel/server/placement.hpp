// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <distdl/parallel/server/messages.hpp>

namespace distdl::parallel::server {

/// Who holds each range at the beginning of a run: servers in turn, each with the one so many places further as its
/// partner; 0: there are no partners. Throws ConfigError without servers.
std::vector<Holders> first_placement(int ranges, const std::vector<Node>& servers, int partner_distance = 1);
/// The least distance with which the fewest servers have their partner on their own host. `hosts`: of the servers.
int partner_distance(const std::vector<std::string>& hosts);

/// What follows for one range from what the servers have told. `last` is what this scheduler decided before, if it did.
/// A range keeps its holders as long as both are there; else the term increases, and the server with the fewest ranges
/// in `load` becomes the partner. Empty: no server has all of the range.
std::optional<Holders> next_holders(const std::optional<Holders>& last, int range,
                                    const std::map<Node, Inventory>& inventories, const std::map<Node, int>& load,
                                    bool has_partners = true);

}  // namespace distdl::parallel::server
