// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include <distdl/parallel/plan.hpp>
#include <distdl/parallel/server/step_parts.hpp>

namespace distdl::parallel::server {

StepParts parts_of(const Options& options, int workers) {
  const MicrobatchPlan plan = make_plan(options, workers);
  StepParts parts{plan.microbatches, {}};
  if (options.servers.mode != Mode::synchronous) {
    for (int i = 0; i < parts.microbatches; ++i) parts.nodes.push_back({0, i});
    return parts;
  }
  const auto count = [&](comm::TreeNode node) { return comm::leaves_of(node, parts.microbatches).count; };
  for (const comm::LeafRange& share : plan.ranges)
    for (const comm::TreeNode node : comm::cover(share, parts.microbatches)) {
      if (share.count == 1 || count(node) < share.count) {
        parts.nodes.push_back(node);
        continue;
      }
      for (const int child : {0, 1}) parts.nodes.push_back({node.level - 1, 2 * node.index + child});
    }
  std::ranges::stable_sort(parts.nodes, std::ranges::greater(), count);
  return parts;
}

std::size_t part_of(const StepParts& parts, int microbatch) {
  const auto part = std::ranges::find_if(parts.nodes, [&](comm::TreeNode node) {
    const auto leaves = comm::leaves_of(node, parts.microbatches);
    return leaves.first <= microbatch && microbatch < leaves.first + leaves.count;
  });
  return static_cast<std::size_t>(part - parts.nodes.begin());
}

int next_microbatch(const StepParts& parts, int workers, int microbatch) {
  const auto leaves = [&](comm::TreeNode node) { return comm::leaves_of(node, parts.microbatches); };
  const std::size_t part = part_of(parts, microbatch);
  const auto own = leaves(parts.nodes[part]);
  if (microbatch + 1 < own.first + own.count) return microbatch + 1;
  const int next = static_cast<int>(part) + workers, count = static_cast<int>(parts.nodes.size());
  return next / count * parts.microbatches + leaves(parts.nodes[static_cast<std::size_t>(next % count)]).first;
}

int most_microbatches(const StepParts& parts) {
  const auto largest = std::ranges::max(parts.nodes, {}, &comm::TreeNode::level);
  return comm::leaves_of(largest, parts.microbatches).count;
}

int most_partial_sums(const StepParts& parts) {
  return std::ranges::max(parts.nodes, {}, &comm::TreeNode::level).level;
}

}  // namespace distdl::parallel::server
