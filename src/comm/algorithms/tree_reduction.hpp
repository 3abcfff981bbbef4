// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// A part of a reduction to a root that one rank does at a time: it adds its own operands and received sums in order,
/// and sends the sum on. Each task receives only from tasks with lower numbers.
struct ReductionTask {
  struct Source {
    LeafRange leaves;
    int part = 0;    ///< part of the rank's own operand, unless
    int child = -1;  ///< the task whose sum is received
  };
  int rank = 0;
  int receiver = -1;  ///< rank; -1 for the last task
  Piece piece;
  std::vector<Source> sources;  ///< a single own operand is sent unchanged
};

/// The fixed tree itself. Each sum is computed by the rank of its left child, or by the root if that is below the node.
std::vector<ReductionTask> binomial_tasks(const Problem& problem, Piece whole);
/// Both trees, each for half of the vector. Own operands are added first.
std::vector<ReductionTask> double_tree_tasks(const Problem& problem, Piece first, Piece second);

/// This rank's part of the tasks.
void reduce_along(ScheduleBuilder& build, const std::vector<ReductionTask>& tasks, Order order);

}  // namespace distdl::comm
