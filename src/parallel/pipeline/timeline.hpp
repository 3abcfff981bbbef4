// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <distdl/parallel/pipeline/schedule.hpp>

namespace distdl::parallel::pipeline {

/// Seconds, or any other unit, of one microbatch in one stage.
struct StageCosts {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double of(Kind kind) const;
};

struct Costs {
  std::vector<StageCosts> stages;
  double transfer = 0;  ///< from the end of an operation to the arrival at another rank, whatever else is under way
};

struct Span {
  double begin = 0, end = 0;
};

/// Times of all operations of a step.
struct Timeline {
  std::vector<std::vector<Span>> spans;  ///< per rank, of each operation that it begins
  std::vector<std::size_t> done;         ///< per rank, operations that end and whose result is sent: all, or a deadlock
  std::vector<double> idle;              ///< per rank, idle part of the step's seconds
  double seconds = 0;                    ///< duration of the step
  /// The part of the step in which a rank is idle, on average.
  double bubble() const;
};

/// Simulates a step. Receives wait; a send waits while its channel's buffers are full.
Timeline simulate(const Schedule& schedule, const Costs& costs);

/// Returns, per rank, the most activations that it has at a time, each of one microbatch in one stage.
std::vector<int> peak_activations(const Schedule& schedule);

/// Returns, for each stage of a rank, the most microbatches between their forward and their last backward.
std::vector<std::size_t> peaks_of_stages(const Schedule& schedule, int rank);

}  // namespace distdl::parallel::pipeline
