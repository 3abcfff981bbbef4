// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/comm/algorithms/registry.hpp>
#include <distdl/comm/selection/selection.hpp>

namespace distdl::comm {
namespace {

/// Elements; from pieces that a network needs to be busy to pieces that fit a cache.
std::vector<std::size_t> segments(const Algorithm& algorithm, std::size_t element) {
  if (!algorithm.tries_segments) return {0};
  std::vector<std::size_t> sizes{0};
  for (std::size_t bytes : {64 << 10, 256 << 10, 1 << 20}) sizes.push_back(std::max<std::size_t>(1, bytes / element));
  return sizes;
}

bool works_on(const Algorithm& algorithm, Operands operands) {
  switch (operands) {
    case Operands::shared:
      return true;
    case Operands::apart:
      return algorithm.shared_use != SharedUse::operands;
    case Operands::device:
      return algorithm.shared_use == SharedUse::none;
  }
  return false;
}

}  // namespace

double predict_seconds(const Problem& problem, const Choice& choice, const Placement& placement,
                       const CostTable& costs) {
  const CostModel model(problem, choice, placement, costs);
  return model.ranks == 1 ? model.costs.step + model.copy(model.total) : choice.algorithm->predicted_seconds(model);
}

std::vector<Candidate> candidates(const Problem& problem, const CostTable& costs, Order order, Operands operands) {
  const Placement placement(problem);
  std::vector<Candidate> all;
  for (const Algorithm* algorithm : algorithms()) {
    if (!works_on(*algorithm, operands)) continue;
    const bool reorders = algorithm->reorders_sums && is_sum(problem.collective);
    if (reorders && order == Order::deterministic) continue;
    for (std::size_t segment : segments(*algorithm, problem.element)) {
      const Choice choice{
          .algorithm = algorithm,
          .segment = segment,
          .staged = algorithm->shared_use == SharedUse::operands_unless_staged && operands == Operands::apart,
          .order = reorders ? Order::any : Order::deterministic};
      if (is_possible(problem, choice)) all.push_back({choice, predict_seconds(problem, choice, placement, costs)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return all;
}

Choice choose(const Problem& problem, const CostTable& costs, Order order, Operands operands) {
  const auto all = candidates(problem, costs, order, operands);
  require(!all.empty(), "no algorithm implements a {} of {} ranks", name_of(problem.collective), problem.size);
  return all.front().choice;
}

}  // namespace distdl::comm
