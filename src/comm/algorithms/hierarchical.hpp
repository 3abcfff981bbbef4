// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/comm/schedule/builder.hpp>

namespace distdl::comm {

// The parts of the algorithm "hierarchical" other than sums (node_sum.hpp), each in its own file.

/// All-gather, gather, scatter.
void node_move(ScheduleBuilder& build);
/// For equal counts only.
void node_all_to_all(ScheduleBuilder& build);
/// Whether the data are small enough to be packed.
bool fits_node_all_to_all(const Problem& problem);

}  // namespace distdl::comm
