// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <distdl/comm/schedule.hpp>

namespace distdl::comm {

/// A partial sum of some rank: `part` of its input, which is the sum over `leaves`.
struct Term {
  LeafRange leaves;
  std::int32_t rank = 0;
  std::uint16_t part = 0;
};

/// A sum that a group of ranks can finish alone from `terms`, which are in the order of additions.
struct GroupSum {
  int group = 0;
  LeafRange leaves;
  std::vector<Term> terms;
};

/// The partial sums of all ranks in leaf order.
std::vector<Term> terms_of(const Problem& problem);
/// Leaves of the tree: problem.leaves, or one per rank.
int leaves_of(const Problem& problem);
/// Partial sums of each rank.
std::vector<int> parts_of(const Problem& problem);
/// The ranks in the order of the sum. Empty unless each rank has exactly one partial sum.
std::vector<int> one_term_each(const Problem& problem);

/// The fewest sums that the groups (group_of[rank]) can finish alone, in the order of additions. For
/// Order::deterministic they are the widest nodes of the tree whose terms all belong to one group. For Order::any there
/// is one sum per group.
std::vector<GroupSum> group_sums(const Problem& problem, std::span<const int> group_of, Order order);

/// The Operand::reductions that turn values over `leaves`, in leaf order, into the value of the tree's node that covers
/// them all. For Order::any, values are added one after the other.
std::vector<std::uint16_t> reductions_of(std::span<const LeafRange> leaves, int all, Order order);

}  // namespace distdl::comm
