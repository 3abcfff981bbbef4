// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/selection/cost_model.hpp>
#include <distdl/comm/selection/selection.hpp>

namespace distdl::comm {
namespace {
// In the order of preference where two should take equally long.
constexpr std::array kAlgorithms = {
    std::pair{Algorithm::shared_short, "shared_short"},
    std::pair{Algorithm::shared_direct, "shared_direct"},
    std::pair{Algorithm::shared_staged, "shared_staged"},
    std::pair{Algorithm::hierarchical, "hierarchical"},
    std::pair{Algorithm::recursive_halving, "recursive_halving"},
    std::pair{Algorithm::recursive_doubling, "recursive_doubling"},
    std::pair{Algorithm::pairwise, "pairwise"},
    std::pair{Algorithm::binomial, "binomial"},
    std::pair{Algorithm::double_tree, "double_tree"},
    std::pair{Algorithm::ring, "ring"},
    std::pair{Algorithm::dissemination, "dissemination"},
};
constexpr std::array kCollectives = {
    std::pair{Collective::barrier, "barrier"},
    std::pair{Collective::broadcast, "broadcast"},
    std::pair{Collective::reduce, "reduce"},
    std::pair{Collective::all_reduce, "all_reduce"},
    std::pair{Collective::reduce_scatter, "reduce_scatter"},
    std::pair{Collective::all_gather, "all_gather"},
    std::pair{Collective::all_to_all, "all_to_all"},
    std::pair{Collective::gather, "gather"},
    std::pair{Collective::scatter, "scatter"},
};

template <class Table>
std::string_view name_in(const Table& table, decltype(table.front().first) value) {
  for (const auto& [each, name] : table)
    if (each == value) return name;
  return "?";
}
template <class Table>
auto value_in(const Table& table, std::string_view name, std::string_view what) {
  std::vector<std::string_view> names;
  for (const auto& [value, each] : table) {
    if (each == name) return value;
    names.emplace_back(each);
  }
  throw ConfigError(fmt::format("there is no {} \"{}\", only {}", what, name, fmt::join(names, ", ")));
}

/// Elements; from pieces that a network needs to be busy to pieces that fit a cache.
std::vector<std::size_t> segments(Algorithm algorithm, std::size_t element) {
  if (algorithm <= Algorithm::shared_staged || algorithm == Algorithm::dissemination) return {0};
  std::vector<std::size_t> sizes{0};
  for (std::size_t bytes : {64 << 10, 256 << 10, 1 << 20}) sizes.push_back(std::max<std::size_t>(1, bytes / element));
  return sizes;
}

bool reduces(Collective collective) {
  return collective == Collective::reduce || collective == Collective::all_reduce ||
         collective == Collective::reduce_scatter;
}
}  // namespace

std::string_view name_of(Algorithm algorithm) {
  return name_in(kAlgorithms, algorithm);
}
std::string_view name_of(Collective collective) {
  return name_in(kCollectives, collective);
}
Algorithm algorithm_of(std::string_view name) {
  return value_in(kAlgorithms, name, "algorithm");
}
Collective collective_of(std::string_view name) {
  return value_in(kCollectives, name, "collective");
}

bool within_nodes(Algorithm algorithm) {
  return algorithm == Algorithm::shared_short || algorithm == Algorithm::shared_direct ||
         algorithm == Algorithm::shared_staged || algorithm == Algorithm::hierarchical;
}

std::vector<Candidate> candidates(const Problem& problem, const CostTable& costs, Order order, Operands operands) {
  const Placement placement(problem);
  std::vector<Candidate> all;
  for (const auto& [algorithm, name] : kAlgorithms) {
    if (algorithm == Algorithm::shared_direct && operands == Operands::apart) continue;
    if (within_nodes(algorithm) && operands == Operands::device) continue;
    const bool reorders = algorithm == Algorithm::ring && reduces(problem.collective);
    if (reorders && order == Order::deterministic) continue;
    for (std::size_t segment : segments(algorithm, problem.element)) {
      const Choice choice{.algorithm = algorithm,
                          .segment = segment,
                          .staged = algorithm == Algorithm::hierarchical && operands == Operands::apart,
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
  require(!all.empty(), "no algorithm can do a {} of {} ranks", name_of(problem.collective), problem.size);
  return all.front().choice;
}

}  // namespace distdl::comm
