// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/median.hpp>
#include <distdl/train/balance/move_rule.hpp>

namespace distdl::train {
namespace {
constexpr std::size_t kTrial = 2;                           ///< exchanges after which a move is judged
constexpr std::int64_t kLeastWait = 4, kLongestWait = 256;  ///< exchanges
constexpr double kMostSteps = 1 << 16;                      ///< between exchanges
}  // namespace

Measured measured(std::span<const double> units, std::vector<double> unit_seconds,
                  std::span<const double> step_seconds) {
  Measured all{std::move(unit_seconds), 0, std::numeric_limits<double>::infinity()};
  for (std::size_t i = 0; i < units.size(); ++i) {
    all.step_seconds = std::max(all.step_seconds, step_seconds[i]);
    // The slowest one is the one that does not wait.
    all.other_seconds = std::min(all.other_seconds, std::max(0.0, step_seconds[i] - units[i] * all.unit_seconds[i]));
  }
  return all;
}

MoveRule::Next MoveRule::take(Measured measured) {
  went_back_.clear();
  remember(std::move(measured));
  if (seconds_before_ && exchanges_ >= kTrial && trial_has_failed()) return Next::go_back;
  if (exchanges_ < window_.size()) return Next::stay;
  find_medians();
  if (wait_ == 0) return Next::look;
  --wait_;
  return Next::stay;
}

void MoveRule::skip() {
  went_back_.clear();
  confirmed_ = 0;
}

bool MoveRule::confirm(std::optional<double> gain) {
  const bool is_enough = gain && *gain >= limits_.least_gain;
  if (gain && !is_enough) wait_ = limits_.fruitless;
  confirmed_ = is_enough ? confirmed_ + 1 : 0;
  if (confirmed_ < limits_.confirmations) return false;
  seconds_before_ = medians_.step_seconds;
  begin_anew();
  return true;
}

void MoveRule::refuse() {
  seconds_before_.reset();
  begin_anew();
}

void MoveRule::remember(Measured measured) {
  const double step = std::max(measured.step_seconds, limits_.seconds_between / kMostSteps);
  steps_until_next_ = std::max(kLeastSteps, static_cast<std::int64_t>(std::ceil(limits_.seconds_between / step)));
  window_[exchanges_++ % window_.size()] = std::move(measured);
}

double MoveRule::median_of(const std::function<double(const Measured&)>& value) const {
  std::vector<double> all;
  all.reserve(window_.size());
  for (const Measured& each : window_) all.push_back(value(each));
  return median(std::move(all));
}

void MoveRule::find_medians() {
  medians_.unit_seconds.resize(window_.front().unit_seconds.size());
  for (std::size_t i = 0; i < medians_.unit_seconds.size(); ++i)
    medians_.unit_seconds[i] = median_of([i](const Measured& each) { return each.unit_seconds[i]; });
  medians_.step_seconds = median_of([](const Measured& each) { return each.step_seconds; });
  medians_.other_seconds = median_of([](const Measured& each) { return each.other_seconds; });
}

void MoveRule::begin_anew() {
  exchanges_ = 0;
  confirmed_ = 0;
}

bool MoveRule::trial_has_failed() {
  const double now = std::min(window_[0].step_seconds, window_[1].step_seconds);
  const double before = *std::exchange(seconds_before_, std::nullopt);
  if (now <= limits_.step * before) {
    next_wait_ = std::max(kLeastWait, next_wait_ / 2);
    return false;
  }
  wait_ = std::exchange(next_wait_, std::min(kLongestWait, 2 * next_wait_));
  went_back_ = fmt::format("a step took {:.3g} s after the move, and {:.3g} s before", now, before);
  begin_anew();
  return true;
}

}  // namespace distdl::train
