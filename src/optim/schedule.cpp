// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include <distdl/optim/schedule.hpp>

namespace distdl::optim {
namespace {
/// How many milestones are behind. `progress`: of the run after its warm-up, 0 .. 1.
std::ptrdiff_t milestones_passed(const Options& options, std::int64_t done, double progress) {
  if (options.milestones.empty()) return progress < 0.5 ? 0 : progress < 0.75 ? 1 : 2;
  return std::count_if(options.milestones.begin(), options.milestones.end(),
                       [done](std::int64_t milestone) { return milestone <= done; });
}

/// The rate after the warm-up, as a share of the peak.
double share_of_peak(const Options& options, std::int64_t done, double progress) {
  const double end = options.final_rate_share;
  if (options.schedule == Schedule::cosine) return end + (1 - end) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  if (options.schedule == Schedule::linear) return end + (1 - end) * (1 - progress);
  if (options.schedule == Schedule::step)
    return std::pow(options.milestone_factor, milestones_passed(options, done, progress));
  return 1;
}
}  // namespace

double peak_rate(const Options& options, std::int64_t global_batch) {
  const double growth = static_cast<double>(global_batch) / static_cast<double>(options.base_batch);
  if (options.scale_rate == RateScale::linear) return options.learning_rate * growth;
  if (options.scale_rate == RateScale::sqrt) return options.learning_rate * std::sqrt(growth);
  return options.learning_rate;
}

double learning_rate(const Options& options, Step done, Step total, std::int64_t global_batch) {
  const double peak = peak_rate(options, global_batch);
  if (done.value < options.warmup_steps)
    return peak * static_cast<double>(done.value + 1) / static_cast<double>(options.warmup_steps);
  const double span = std::max<double>(1, static_cast<double>(total.value - options.warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(done.value - options.warmup_steps) / span);
  return peak * share_of_peak(options, done.value, progress);
}

}  // namespace distdl::optim
