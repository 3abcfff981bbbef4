// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/comm/sum_tree.hpp>
#include <distdl/parallel/options.hpp>
#include <distdl/parallel/server/rules.hpp>

namespace distdl::parallel::server {

/// The parts of a step that are leased and pushed as one each: one of them is what the roles count as a microbatch.
/// A part is a subtree of the tree of comm::TreeNode over the microbatches of the step. A worker finishes its sum
/// alone, and no bit of the sum of a step depends on the parts.
struct StepParts {
  int microbatches = 1;                   ///< number per step
  std::vector<comm::TreeNode> nodes{{}};  ///< nodes of the parts, which contain each microbatch once

  /// Returns the node of a part of any step.
  comm::TreeNode node_of(Microbatch part) const { return nodes[static_cast<std::size_t>(part.value) % nodes.size()]; }
};

/// Returns the parts of a step. Where gradients are applied at once, each microbatch is a part, in their order. With
/// `synchronous` there are few parts, so that little is sent: the fewest subtrees of each worker's equal share of a
/// step. A worker with several microbatches has two parts at least, so that a fast worker can take over from a slow
/// one. Large parts come first: workers that take the next part each then end at about the same time. Throws
/// ConfigError as make_plan().
StepParts parts_of(const Options& options, int workers);

/// The number of the part that has a microbatch of a step.
std::size_t part_of(const StepParts& parts, int microbatch);

/// Returns the microbatch that a worker computes after this one if all workers are equally fast. Numbers from the
/// step's number of microbatches on belong to the next step.
int next_microbatch(const StepParts& parts, int workers, int microbatch);

/// The microbatches of the largest part.
int most_microbatches(const StepParts& parts);

/// Returns the most sums that a worker has beside the one that it adds to, while it computes a part.
int most_partial_sums(const StepParts& parts);

}  // namespace distdl::parallel::server
