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
  int microbatches = 1;                   ///< of a step
  std::vector<comm::TreeNode> nodes{{}};  ///< which contain each microbatch once

  /// Of a part of any step.
  comm::TreeNode node_of(Microbatch part) const { return nodes[static_cast<std::size_t>(part.value) % nodes.size()]; }
};

/// Where gradients are applied at once, each microbatch is a part, in their order. With `synchronous` there are few, so
/// that little is sent: of each worker's equal share of a step the fewest subtrees, but two at least if it has several
/// microbatches, so that a fast worker can take over from a slow one. Large parts come first: workers that take the
/// next part each then end at about the same time. Throws ConfigError as make_plan().
StepParts parts_of(const Options& options, int workers);

/// The number of the part that has a microbatch of a step.
std::size_t part_of(const StepParts& parts, int microbatch);

/// After a microbatch of a step, the one that a worker computes next if all are equally fast; from the step's number of
/// microbatches on, of the next step.
int next_microbatch(const StepParts& parts, int workers, int microbatch);

/// The microbatches of the largest part.
int most_microbatches(const StepParts& parts);

/// The most sums that a worker has beside the one that it adds to, while it computes a part.
int most_partial_sums(const StepParts& parts);

}  // namespace distdl::parallel::server
