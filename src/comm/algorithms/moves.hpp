// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// What a rank has of the vector before, and what it must have after an operation that moves data without summing.
Piece held_by(const ScheduleBuilder& build, int rank);
Piece wanted_by(const ScheduleBuilder& build, int rank);
/// By a neighbour, some of it.
bool is_wanted_elsewhere(const ScheduleBuilder& build, Piece held);

/// Where the inputs and outputs of an all-to-all hold what one rank has for another; where all counts are equal
/// (Problem::count).
Block sent_block(const ScheduleBuilder& build, int from, int to);
Block received_block(const ScheduleBuilder& build, int from, int to);

}  // namespace distdl::comm
