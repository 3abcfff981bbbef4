// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/schedule_builder.hpp>

namespace distdl::comm {

// The generators behind make_schedule(). Each adds the steps of one rank; the problem and the choice are possible.

/// What a rank has of the vector before, and what it must have after an operation that moves data without summing.
Piece held_by(const ScheduleBuilder& build, int rank);
Piece wanted_by(const ScheduleBuilder& build, int rank);

void shared_short_sum(ScheduleBuilder& build);
void shared_direct_sum(ScheduleBuilder& build);
void shared_staged_sum(ScheduleBuilder& build);
void shared_short_move(ScheduleBuilder& build);
void shared_direct_move(ScheduleBuilder& build);
void shared_staged_move(ScheduleBuilder& build);
void shared_barrier(ScheduleBuilder& build);

void pairwise_sum(ScheduleBuilder& build);
void pairwise_move(ScheduleBuilder& build);

void dissemination_barrier(ScheduleBuilder& build);
void binomial_broadcast(ScheduleBuilder& build);

}  // namespace distdl::comm
