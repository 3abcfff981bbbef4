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

/// Times of one rank's work in a step, in seconds.
struct RankWork {
  double forward = 0, backward = 0;         ///< seconds of a microbatch, with the copy of the batch
  std::vector<FinalGradients> finals = {};  ///< descending places; empty: all at the end of the backward pass
  double add = 0;                           ///< seconds of an addition of two gradient arenas
  double update = 0;                        ///< seconds of the update of all parameters
  double load = 0;                          ///< seconds of loading the changed parameters into the layers
  double rest = 0;                          ///< further seconds of a step, whatever its size: records, votes
  double spread = 0;  ///< standard deviation of a microbatch's time / that time, over steps and ranks
  bool operator==(const RankWork&) const = default;
};

/// Seconds of the backward pass until the gradients from `place` on are final.
double final_after(const RankWork& work, std::size_t place);

/// Returns the work of a rank that gathers the parameters of each bucket while the layers before them compute, as
/// train::ParameterBlocks does: its passes are longer by the waits for them. `gather_seconds`: seconds of each bucket.
RankWork with_gathers(const RankWork& work, const std::vector<parallel::Bucket>& buckets,
                      const std::vector<double>& gather_seconds);

/// A step of all ranks as the program runs it (train/sync/sync_step.cpp).
struct StepPlan {
  std::vector<int> microbatches;          ///< microbatches of each rank
  std::vector<parallel::Bucket> buckets;  ///< in the order of their sums
  std::vector<double> sum_seconds;        ///< time of each bucket's sum; all 0: one rank
  std::size_t floats = 1;                 ///< size of an arena
  bool in_parts = true;                   ///< a bucket is updated as soon as it is summed
  /// Processor seconds that the sum of a bucket takes from the rank's computation; 0: it has a processor to spare.
  std::vector<double> stolen_seconds = {};
  /// With shards: the fraction of the parameters that the busiest rank updates, and for each bucket the time of the
  /// collective that spreads them. The thread of the sums does it, `lag` sums later, see GradientSum::follow_with().
  double updated_share = 1;
  std::vector<double> gather_seconds = {};
  std::size_t lag = 2;
  /// Seconds by which the sum of each bucket takes longer as long as ranks compute: its thread sleeps while it waits,
  /// and polls afterwards. None: 0.
  std::vector<double> nap_seconds = {};
};

struct StepTime {
  double seconds = 0;  ///< mean of the simulated steps
  double compute = 0;  ///< computing time of the mean rank
  double sum = 0;      ///< time of all buckets' sums
  double waited = 0;   ///< time that the slowest rank waited for sums and gathers, after its microbatches were done

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
