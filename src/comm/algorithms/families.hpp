// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

// The generators behind make_schedule(). Each adds the steps of one rank; the problem and the choice are possible.

/// What a rank has of the vector before, and what it must have after an operation that moves data without summing.
Piece held_by(const ScheduleBuilder& build, int rank);
Piece wanted_by(const ScheduleBuilder& build, int rank);
/// Does another rank of the node want some of it?
bool is_wanted_elsewhere(const ScheduleBuilder& build, Piece held);

void shared_short_sum(ScheduleBuilder& build);
void shared_direct_sum(ScheduleBuilder& build);
void shared_staged_sum(ScheduleBuilder& build);
void shared_short_move(ScheduleBuilder& build);
void shared_direct_move(ScheduleBuilder& build);
void shared_staged_move(ScheduleBuilder& build);
void shared_barrier(ScheduleBuilder& build);

/// Elements of a slice that shared_staged_sum() has room for at a time.
std::size_t staged_sum_length(const Problem& problem);

void pairwise_sum(ScheduleBuilder& build);
void pairwise_move(ScheduleBuilder& build);

/// Does each rank bring exactly one partial sum? Are they, moreover, the leaves of a full tree?
bool can_double(const Problem& problem);
bool can_halve(const Problem& problem);
/// The ranks in the order of the sum; empty unless each brings exactly one partial sum.
std::vector<int> one_term_each(const Problem& problem);
void doubling_sum(ScheduleBuilder& build);
/// All-reduce, reduce-scatter.
void halving_sum(ScheduleBuilder& build);
void doubling_gather(ScheduleBuilder& build);

/// All-reduce, reduce-scatter, all-gather.
void ring(ScheduleBuilder& build);

void binomial_broadcast(ScheduleBuilder& build);
void binomial_reduce(ScheduleBuilder& build);
void binomial_gather(ScheduleBuilder& build);
void binomial_scatter(ScheduleBuilder& build);
void double_tree_broadcast(ScheduleBuilder& build);
void double_tree_reduce(ScheduleBuilder& build);

/// Reduce, all-reduce.
void hierarchical_sum(ScheduleBuilder& build);
void hierarchical_broadcast(ScheduleBuilder& build);
void hierarchical_barrier(ScheduleBuilder& build);
/// All-gather, gather, scatter.
void hierarchical_move(ScheduleBuilder& build);
/// Is there room for a chunk of each partition and partial sum in the shared area?
bool fits_hierarchical_sum(const Problem& problem);

void pairwise_all_to_all(ScheduleBuilder& build);
/// These only where all counts are equal.
void shared_short_all_to_all(ScheduleBuilder& build);
void shared_direct_all_to_all(ScheduleBuilder& build);
void shared_staged_all_to_all(ScheduleBuilder& build);
void hierarchical_all_to_all(ScheduleBuilder& build);
/// Is there little enough to be packed?
bool fits_hierarchical_all_to_all(const Problem& problem);

/// None of `members` goes on before all have come.
void disseminate(ScheduleBuilder& build, const std::vector<int>& members);
void dissemination_barrier(ScheduleBuilder& build);

}  // namespace distdl::comm
