// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include <distdl/comm/schedule.hpp>

namespace distdl::comm {

/// Runs the schedules of all ranks on symbols instead of numbers, under the weakest guarantees: a send ends only when
/// its receive has begun, and memory of a transfer may change until the wait. `problems[r]` and `schedules[r]` are
/// those of rank r. Returns "" if
///  - all ranks come to their end (no deadlock), with no message left and all sizes equal;
///  - each element of each output holds what the collective promises: each leaf once, for Order::deterministic along
///    the tree, for Order::any in any order;
///  - no step reads memory that was never written or that another rank or transfer may be writing, and no step writes
///    what another may still read (happens-before by signals within the node; messages do not count), with input and
///    output apart or in place; and no other rank touches input or output before the rank's arrival or after its end;
/// else what is wrong, where: "rank 3, step 17 (receive from 5): ...".
std::string check_schedules(std::span<const Problem> problems, std::span<const Schedule> schedules, Order order,
                            bool in_place);

}  // namespace distdl::comm
