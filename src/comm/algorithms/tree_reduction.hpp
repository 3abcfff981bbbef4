// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// Part of a reduction to a root that one rank does at a time: it adds what it has and what it gets, in order, and
/// passes the sum on. Tasks are numbered such that each gets from tasks of lower numbers only.
struct ReductionTask {
  struct Source {
    LeafRange leaves;
    int part = 0;    ///< of the rank's own operand, unless
    int child = -1;  ///< the task whose sum it gets
  };
  int rank = 0;
  int receiver = -1;  ///< rank; the last task has none
  Piece piece;
  std::vector<Source> sources;  ///< a single own one is passed on as it is
};

/// The fixed tree itself: each sum is made by the rank of its left child, or by the root if it is below.
std::vector<ReductionTask> binomial_tasks(const Problem& problem, Piece whole);
/// Both trees, each for half of the vector; own operands are added first.
std::vector<ReductionTask> double_tree_tasks(const Problem& problem, Piece first, Piece second);

/// This rank's part of them.
void reduce_along(ScheduleBuilder& build, const std::vector<ReductionTask>& tasks, Order order);

}  // namespace distdl::comm
