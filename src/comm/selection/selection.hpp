// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/cost_table.hpp>
#include <distdl/comm/schedule.hpp>
#include <distdl/comm/selection/cost_model.hpp>

namespace distdl::comm {

/// The memory of the operands: mapped by all ranks of a node, other host memory, or that of a device, where only the
/// network can be used.
enum class Operands : std::uint8_t { shared, apart, device };

/// A possible choice with its predicted seconds.
struct Candidate {
  Choice choice;
  double seconds = 0;
};

/// The predicted seconds of a collective, by its algorithm's use of the cost model. `choice` must be possible.
double predict_seconds(const Problem& problem, const Choice& choice, const Placement& placement,
                       const CostTable& costs);

/// All possible choices, fastest first. For Order::deterministic these are only choices that keep the order of
/// additions. Pure: the result is the same on all ranks, although problem.rank and the counts of an all-to-all differ.
std::vector<Candidate> candidates(const Problem& problem, const CostTable& costs, Order order,
                                  Operands operands = Operands::shared);

/// The first candidate. NCCL likewise uses the algorithm that its table of latencies and bandwidths predicts to be the
/// fastest for a size (nccl/src/graph/tuning.cc). Throws ConfigError if there is none.
Choice choose(const Problem& problem, const CostTable& costs, Order order, Operands operands = Operands::shared);

}  // namespace distdl::comm
