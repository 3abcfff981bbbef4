// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

/// The part of the vector that a rank has before an operation that moves data without summing, and the part that it
/// must have afterwards.
Piece held_by(const ScheduleBuilder& build, int rank);
Piece wanted_by(const ScheduleBuilder& build, int rank);
/// Whether another rank of the node needs some of it.
bool is_wanted_elsewhere(const ScheduleBuilder& build, Piece held);

/// The elements from one rank for another in the inputs and outputs of an all-to-all with equal counts
/// (Problem::count).
Block sent_block(const ScheduleBuilder& build, int from, int to);
Block received_block(const ScheduleBuilder& build, int from, int to);

}  // namespace distdl::comm
