// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/cost_table.hpp>
#include <distdl/comm/schedule.hpp>
#include <distdl/comm/selection/cost_model.hpp>

namespace distdl::comm {

/// Where the operands lie: in memory that all ranks of a node have mapped, in other host memory, or in a device's,
/// where only what goes over the network helps.
enum class Operands : std::uint8_t { shared, apart, device };

/// A way of doing it, with the seconds that it should take.
struct Candidate {
  Choice choice;
  double seconds = 0;
};

/// Seconds that a collective is expected to take, by its algorithm's use of the cost model. `choice` must be possible.
double predict_seconds(const Problem& problem, const Choice& choice, const Placement& placement,
                       const CostTable& costs);

/// All that are possible, the fastest first. For Order::deterministic only those that keep the order of additions.
/// Pure: the result is the same on all ranks, though problem.rank and the counts of an all-to-all differ.
std::vector<Candidate> candidates(const Problem& problem, const CostTable& costs, Order order,
                                  Operands operands = Operands::shared);

/// The first of them, as NCCL takes the algorithm that its table of latencies and bandwidths tells to be the fastest
/// for a size (nccl/src/graph/tuning.cc). Throws ConfigError if there is none.
Choice choose(const Problem& problem, const CostTable& costs, Order order, Operands operands = Operands::shared);

}  // namespace distdl::comm
