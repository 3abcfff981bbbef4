// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/base/median.hpp>
#include <distdl/train/saves/checkpoint_schedule.hpp>

namespace distdl::train {
namespace {
constexpr std::int64_t kFirst = 100;  // steps until the first save, when nothing has been measured yet
constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::size_t kRemembered = 5;  // saves
constexpr double kWorthIt = 0.1;        // smaller changes of the interval are noise
constexpr double kNewest = 0.05;        // weight of the newest step
constexpr double kSmallest = 1e-6;      // seconds; clocks tell no less

}  // namespace

CheckpointSchedule::CheckpointSchedule(const checkpoint::Options& options, const checkpoint::FailureRecord& failures)
    : automatic_(options.every.automatic), steps_(automatic_ ? kFirst : options.every.steps) {
  require(steps_ >= 0, "checkpoint.every is {}, but must be \"auto\" or not negative", steps_);
  require(options.mtbf_hours >= 0 && options.mtbf_hours < 1e9,
          "checkpoint.mtbf_hours is {}, but must be between 0 and 1e9", options.mtbf_hours);
  if (options.mtbf_hours > 0) {
    mean_between_failures_ = options.mtbf_hours * 3600;
    source_ = "checkpoint.mtbf_hours";
  } else {
    mean_between_failures_ = checkpoint::mean_between_failures(failures);
    source_ = fmt::format("estimated from {:.3g} h with {} failures", failures.seconds / 3600, failures.failures);
  }
}

bool CheckpointSchedule::due(Step step) const {
  if (steps_ == 0) return false;
  return automatic_ ? step.value - last_.value >= steps_ : step.value % steps_ == 0;
}

void CheckpointSchedule::step_took(double seconds) {
  step_seconds_ = step_seconds_ == 0 ? seconds : (1 - kNewest) * step_seconds_ + kNewest * seconds;
}

std::int64_t CheckpointSchedule::measured_steps(double durable) {
  double stall = std::max(kSmallest, median({stalls_.begin(), stalls_.end()}));
  // Not before the last save is on the disk: a save that finds one under way is for nothing.
  double pays = checkpoint::daly_interval(stall, mean_between_failures_), seconds = std::max(pays, durable);
  disk_decides_ = durable > pays;
  double steps = std::round(seconds / std::max(kSmallest, step_seconds_));
  return static_cast<std::int64_t>(std::clamp(steps, 1.0, static_cast<double>(kMost)));
}

bool CheckpointSchedule::saved(double stall, double durable) {
  if (!automatic_) return false;
  bool first = stalls_.empty();
  stalls_.push_back(stall);
  if (stalls_.size() > kRemembered) stalls_.pop_front();
  std::int64_t measured = measured_steps(durable);
  auto change = static_cast<double>(std::abs(measured - steps_));
  if (!first && change <= kWorthIt * static_cast<double>(steps_)) return false;
  steps_ = measured;
  return true;
}

std::string CheckpointSchedule::plan() const {
  return fmt::format(
      "the first checkpoint comes after {} steps, then the interval is computed; a failure is expected every {:.3g} h "
      "({})",
      steps_, mean_between_failures_ / 3600, source_);
}

std::string CheckpointSchedule::reason() const {
  return fmt::format(
      "a save delays training by {:.3g} s, a step takes {:.3g} s, and a failure is expected every {:.3g} h{}",
      stalls_.empty() ? 0 : median({stalls_.begin(), stalls_.end()}), step_seconds_, mean_between_failures_ / 3600,
      disk_decides_ ? "; a shorter interval would end before the previous save is on the disk" : "");
}

}  // namespace distdl::train
