// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/pipeline/balance.hpp>

namespace distdl::parallel::pipeline {

std::vector<int> balance_stages(std::span<const double> costs, int stages) {
  const auto layers = costs.size(), count = static_cast<std::size_t>(std::max(stages, 0));
  require(count >= 1 && count <= layers, "{} layers cannot be divided into {} stages; take 1 to {} stages", layers,
          stages, layers);
  // best[l]: the slowest stage of the first l layers in as many stages as were added so far.
  std::vector<double> best(layers + 1, std::numeric_limits<double>::infinity());
  best[0] = 0;
  std::vector<std::vector<int>> sizes(count, std::vector<int>(layers + 1));  // last stage, per number
  for (auto& size : sizes) {
    std::vector<double> next(layers + 1, std::numeric_limits<double>::infinity());
    for (std::size_t end = 1; end <= layers; ++end) {
      double last = 0;
      for (std::size_t first = end; first-- > 0;) {
        last += costs[first];
        if (const double slowest = std::max(last, best[first]); slowest < next[end]) {
          next[end] = slowest;
          size[end] = static_cast<int>(end - first);
        }
      }
    }
    best = std::move(next);
  }
  std::vector<int> result(count);
  std::size_t end = layers;
  for (std::size_t stage = count; stage-- > 0; end -= static_cast<std::size_t>(result[stage]))
    result[stage] = sizes[stage][end];
  return result;
}

std::vector<std::int64_t> nearest_stages(std::span<const double> costs, int stages,
                                         std::span<const std::int64_t> wanted) {
  const auto balanced = balance_stages(costs, stages);
  if (wanted.size() != balanced.size()) return {balanced.begin(), balanced.end()};
  std::vector<std::int64_t> sizes;
  std::int64_t left = std::ssize(costs), later = std::ssize(wanted);
  for (const std::int64_t size : wanted) {
    --later;
    sizes.push_back(later == 0 ? left : std::clamp<std::int64_t>(size, 1, left - later));
    left -= sizes.back();
  }
  return sizes;
}

}  // namespace distdl::parallel::pipeline
