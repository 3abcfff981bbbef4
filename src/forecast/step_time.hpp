// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <distdl/parallel/buckets.hpp>

namespace distdl::forecast {

/// From this place on, the gradients of a microbatch are final so many seconds after its backward pass began.
struct FinalGradients {
  std::size_t place = 0;
  double seconds = 0;
  bool operator==(const FinalGradients&) const = default;
};

/// What one rank computes in a step, in seconds.
struct RankWork {
  double forward = 0, backward = 0;         ///< of a microbatch, the batch's copy included
  std::vector<FinalGradients> finals = {};  ///< descending places; empty: all at the end of the backward pass
  double add = 0;                           ///< an addition of two gradient arenas
  double update = 0;                        ///< of all parameters
  double load = 0;                          ///< of the changed parameters into the layers
  double rest = 0;                          ///< of a step, whatever its size: records, questions
  double spread =
      0;  ///< standard deviation of a microbatch's time, as a share of it; from step to step and rank to rank
  bool operator==(const RankWork&) const = default;
};

/// Seconds of the backward pass until the gradients from `place` on are final.
double final_after(const RankWork& work, std::size_t place);

/// The same work where the parameters of each bucket are gathered while the layers before them compute, as
/// train::ParameterBlocks does: its passes are longer by the waits for them. `gather_seconds`: of each bucket.
RankWork with_gathers(const RankWork& work, const std::vector<parallel::Bucket>& buckets,
                      const std::vector<double>& gather_seconds);

/// A step of all ranks as the program runs it (train/sync/sync_step.cpp).
struct StepPlan {
  std::vector<int> microbatches;          ///< of each rank
  std::vector<parallel::Bucket> buckets;  ///< in the order of their sums
  std::vector<double> sum_seconds;        ///< of each bucket; all 0: one rank
  std::size_t floats = 1;                 ///< of an arena
  bool in_parts = true;                   ///< a bucket is updated as soon as it is summed
  /// Seconds of the processor that the sum of a bucket takes from what the rank computes; 0: it has one to spare.
  std::vector<double> stolen_seconds = {};
  /// With shards: the share of the parameters that the busiest rank updates, and of each bucket the collective that
  /// spreads them, which the thread of the sums does. It follows `lag` sums later, see GradientSum::follow_with().
  double updated_share = 1;
  std::vector<double> gather_seconds = {};
  std::size_t lag = 2;
  /// By which the sum of each bucket takes longer as long as ranks compute: its thread sleeps while it waits, and polls
  /// afterwards. None: 0.
  std::vector<double> nap_seconds = {};
};

struct StepTime {
  double seconds = 0;  ///< mean of the simulated steps
  double compute = 0;  ///< of the mean rank
  double sum = 0;      ///< of all buckets
  double waited = 0;   ///< by the slowest rank for sums and gathers, after its microbatches were done

  StepTime& operator*=(double factor) {
    for (double* part : {&seconds, &compute, &sum, &waited}) *part *= factor;
    return *this;
  }
};

/// Simulates `steps` steps. Between two sums and their waits each rank computes by itself; a sum begins when the last
/// rank has released its bucket and the sum before has ended. Deterministic: the times of the ranks vary by `seed`.
/// O(ranks * buckets) for each step.
StepTime simulate_steps(const RankWork& work, const StepPlan& plan, int steps, std::uint64_t seed);

}  // namespace distdl::forecast
