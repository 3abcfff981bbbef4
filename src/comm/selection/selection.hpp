// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include <distdl/comm/cost_table.hpp>
#include <distdl/comm/schedule/schedule.hpp>

namespace distdl::comm {

/// "recursive_halving", "all_reduce": as tools and logs name them.
std::string_view name_of(Algorithm algorithm);
std::string_view name_of(Collective collective);
/// Throws ConfigError naming the possible ones.
Algorithm algorithm_of(std::string_view name);
Collective collective_of(std::string_view name);

/// Where the operands lie: in memory that all ranks of a node have mapped, in other host memory, or in a device's,
/// where only what goes over the network helps.
enum class Operands : std::uint8_t { shared, apart, device };

/// Does it work through the shared memory of a node?
bool within_nodes(Algorithm algorithm);

/// A way of doing it, with the seconds that it should take.
struct Candidate {
  Choice choice;
  double seconds = 0;
};

/// All that are possible, the fastest first. For Order::deterministic only those that keep the order of additions.
/// Pure: the result is the same on all ranks, though problem.rank and the counts of an all-to-all differ.
std::vector<Candidate> candidates(const Problem& problem, const CostTable& costs, Order order,
                                  Operands operands = Operands::shared);

/// The first of them, as NCCL takes the algorithm that its table of latencies and bandwidths tells to be the fastest
/// for a size (nccl/src/graph/tuning.cc). Throws ConfigError if there is none.
Choice choose(const Problem& problem, const CostTable& costs, Order order, Operands operands = Operands::shared);

}  // namespace distdl::comm
