// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include <distdl/parallel/tensor_placement.hpp>

namespace distdl::parallel {

std::string divided_tensor_group(const Degrees& degrees, const std::function<std::string(int rank)>& node_of) {
  for (int first = 0; first < degrees.ranks() && degrees.tensor > 1; first += degrees.tensor) {
    std::vector<std::string> nodes;
    for (int rank = first; rank < first + degrees.tensor; ++rank)
      if (auto node = node_of(rank); std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(std::move(node));
    if (nodes.size() > 1)
      return fmt::format(
          "the tensor group of ranks {} to {} lies on {}, but its sums in each layer are several times faster within "
          "one node: use a number of ranks per node that is divisible by {}, or another parallel.tensor_ranks",
          first, first + degrees.tensor - 1, fmt::join(nodes, ", "), degrees.tensor);
  }
  return {};
}

std::string divided_tensor_group(const Degrees& degrees, int ranks_per_node) {
  if (ranks_per_node < 1 || ranks_per_node % degrees.tensor == 0) return {};
  return divided_tensor_group(degrees, [&](int rank) { return fmt::format("node {}", rank / ranks_per_node); });
}

}  // namespace distdl::parallel
