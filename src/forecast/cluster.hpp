// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include <distdl/base/one_of.hpp>
#include <distdl/comm/cost_table.hpp>

namespace distdl::forecast {

/// How the nodes are joined.
enum class Topology { flat, fat_tree, dragonfly };
constexpr std::array<Named<Topology>, 3> choices_of(Topology) {
  return {{
      {Topology::flat, "flat", "every node can send at its full rate to every other one"},
      {Topology::fat_tree, "fat-tree",
       "the nodes of a leaf switch share links upwards, --oversubscription times narrower than those of the nodes"},
      {Topology::dragonfly, "dragonfly",
       "groups of nodes share global links, --oversubscription times narrower than those of the nodes"},
  }};
}

/// The network between nodes. Fat trees: Leiserson, IEEE Transactions on Computers 1985. Dragonflies: Kim, Dally, Scott
/// and Abts, ISCA 2008.
struct Fabric {
  OneOf<Topology> topology = Topology::flat;
  int group = 32;                ///< nodes of a leaf switch, or of a group of a dragonfly
  double oversubscription = 1;   ///< rate of the nodes of a group together / rate of the group's links to others
  double switch_seconds = 3e-7;  ///< delay of a message in each further switch
};

/// Nodes of one kind, with the costs of collectives there.
struct Cluster {
  int nodes = 1, ranks_per_node = 1;
  Fabric fabric;
  comm::CostTable costs;  ///< costs between nodes below one switch
  /// The costs by which the ranks choose algorithms and buckets: CostTable's defaults, unless "distdl bench comm
  /// --tune" has measured others on these hosts.
  comm::CostTable known;

  int ranks() const { return nodes * ranks_per_node; }
};

}  // namespace distdl::forecast
