// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/app/watch/estimate.hpp>

namespace distdl::app {
namespace {
/// Seconds that a step takes; 0: not known.
double step_seconds(const Pace& pace) {
  constexpr double kWeight = 50;  // steps of the present start that count as much as all steps before it
  const auto steps = static_cast<double>(std::max<std::int64_t>(0, pace.start_steps));
  const bool has_start = steps > 0 && pace.start_seconds > 0;
  if (pace.run_step_seconds <= 0) return has_start ? pace.start_seconds / steps : 0;
  const double fewer_ranks =
      pace.run_ranks > 0 && pace.ranks > 0 ? pace.run_ranks / static_cast<double>(pace.ranks) : 1;
  const double before = pace.run_step_seconds * fewer_ranks;
  return has_start ? (pace.start_seconds + kWeight * before) / (steps + kWeight) : before;
}
}  // namespace

Estimate estimate(const Pace& pace) {
  if (pace.total <= 0) return {.reason = "the number of steps is not known yet"};
  const double seconds = step_seconds(pace);
  if (seconds <= 0) return {.reason = "no step has been measured yet"};
  const double lost = pace.training_seconds > 0 ? pace.lost_seconds / pace.training_seconds : 0;
  const auto left = static_cast<double>(std::max<std::int64_t>(0, pace.total - pace.step));
  return {.seconds = std::max(0.0, pace.wait_seconds) + left * seconds * (1 + std::max(0.0, lost))};
}

}  // namespace distdl::app
