// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <distdl/parallel/plan.hpp>

namespace distdl::parallel {

/// Costs of a step, as measured under a plan.
struct StepCosts {
  std::vector<double> microbatch_seconds;  ///< per rank, above 0
  /// Seconds per step besides the microbatches. Most of it is the all-reduce, which takes one operand per partial sum.
  double other_seconds = 0;
  std::size_t partials = 1;  ///< most partial sums of a rank under the plan that other_seconds belongs to
};

/// The most partial sums that a rank gives to the all-reduce.
std::size_t most_partials(const MicrobatchPlan& plan);

/// The predicted seconds of a step: the slowest rank's microbatches, and the rest, which grows with the partial sums.
double step_seconds(const MicrobatchPlan& plan, const StepCosts& costs);

/// The division of the microbatches that takes the least step_seconds(), where rank r has room for arenas[r] arenas,
/// see arenas_for(). Ranges that begin and end at subtrees of the sum have fewer partial sums and need fewer arenas, so
/// this is not always make_plan() of the ranks' speeds. Returns nothing if no division has room.
std::optional<MicrobatchPlan> balanced_plan(const Options& options, const StepCosts& costs,
                                            const std::vector<std::size_t>& arenas);

}  // namespace distdl::parallel
