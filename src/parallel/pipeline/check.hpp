// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <distdl/parallel/pipeline/schedule.hpp>

namespace distdl::parallel::pipeline {

/// Returns "" if
///  - each microbatch passes each stage once forward and once backward (or once backward for the input, then once for
///    the weights), in ascending order of the microbatches, and after what it needs on the same rank;
///  - each rank receives and sends what its stages need, and receives the messages of a channel in the order in which
///    they are sent;
///  - all ranks come to their end with waiting receives and the schedule's buffers (no deadlock), and no message is
///    left;
///  - no rank ever has more activations than the schedule promises, and none at the end (flush);
/// else the problem and its place: "rank 1, operation 3 (forward of microbatch 2 in stage 1): ...".
std::string check_schedule(const Schedule& schedule);

}  // namespace distdl::parallel::pipeline
