// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

// What the algorithm "hierarchical" does besides sums (node_sum.hpp), in files of their own.

/// All-gather, gather, scatter.
void node_move(ScheduleBuilder& build);
/// Where all counts are equal.
void node_all_to_all(ScheduleBuilder& build);
/// Is there little enough to be packed?
bool fits_node_all_to_all(const Problem& problem);

}  // namespace distdl::comm
