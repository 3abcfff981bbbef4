// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <distdl/base/median.hpp>
#include <distdl/train/load_balance.hpp>

namespace distdl::train {
namespace {
constexpr std::size_t kTrial = 2;                           ///< exchanges after which a move is judged
constexpr double kSlower = 1.03;                            ///< the steps after a move may not be slower than this
constexpr std::int64_t kLeastWait = 4, kLongestWait = 256;  ///< exchanges
constexpr double kSecondsBetween = 1;                       ///< exchanges
constexpr double kMostSteps = 1 << 16;                      ///< between exchanges
}  // namespace

LoadBalance::LoadBalance(parallel::Options options, parallel::MicrobatchPlan equal, std::vector<std::size_t> arenas,
                         const BalanceRule& rule)
    : rule_(rule),
      options_(std::move(options)),
      plan_(std::move(equal)),
      before_(plan_),
      arenas_(std::move(arenas)),
      window_(rule.window) {}

bool LoadBalance::take(std::span<const RankTimes> times) {
  went_back_.clear();
  const auto is_known = [](const RankTimes& each) {
    return std::isfinite(each.microbatch_seconds) && each.microbatch_seconds > 0 && std::isfinite(each.step_seconds);
  };
  if (!std::all_of(times.begin(), times.end(), is_known)) {
    confirmed_ = 0;
    return false;
  }
  remember(times);
  if (seconds_to_beat_ && exchanges_ >= kTrial && judge_trial()) return true;
  if (!is_full()) return false;
  find_medians();
  if (wait_ > 0) {
    --wait_;
    return false;
  }
  auto plan = better_plan();
  confirmed_ = plan ? confirmed_ + 1 : 0;
  if (confirmed_ < rule_.confirmations) return false;
  seconds_to_beat_ = median_of([](const Exchange& each) { return each.step_seconds; });
  change_to(std::move(*plan));
  return true;
}

void LoadBalance::refuse(std::vector<std::size_t> arenas) {
  seconds_to_beat_.reset();
  change_to(before_);
  arenas_ = std::move(arenas);
}

void LoadBalance::remember(std::span<const RankTimes> times) {
  Exchange& newest = window_[exchanges_++ % window_.size()];
  newest.times.assign(times.begin(), times.end());
  newest.step_seconds = 0;
  newest.other_seconds = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < times.size(); ++r) {
    const double computing = plan_.ranges[r].count * times[r].microbatch_seconds;
    newest.step_seconds = std::max(newest.step_seconds, times[r].step_seconds);
    // The slowest rank is the one that does not wait.
    newest.other_seconds = std::min(newest.other_seconds, std::max(0.0, times[r].step_seconds - computing));
  }
  const double steps = std::ceil(kSecondsBetween / std::max(newest.step_seconds, kSecondsBetween / kMostSteps));
  steps_until_next_ = std::max(kLeastSteps, static_cast<std::int64_t>(steps));
}

template <class Value>
double LoadBalance::median_of(Value&& value) const {
  std::vector<double> all;
  all.reserve(window_.size());
  for (const Exchange& each : window_) all.push_back(value(each));
  return median(std::move(all));
}

void LoadBalance::find_medians() {
  costs_.microbatch_seconds.resize(plan_.ranges.size());
  for (std::size_t r = 0; r < plan_.ranges.size(); ++r)
    costs_.microbatch_seconds[r] = median_of([r](const Exchange& each) { return each.times[r].microbatch_seconds; });
  costs_.other_seconds = median_of([](const Exchange& each) { return each.other_seconds; });
  costs_.partials = parallel::most_partials(plan_);
}

bool LoadBalance::may_gain() const {
  double speed = 0;
  for (double seconds : costs_.microbatch_seconds) speed += 1 / seconds;
  return step_seconds(plan_, costs_) >= rule_.least_gain * (plan_.microbatches / speed + costs_.other_seconds);
}

std::optional<parallel::MicrobatchPlan> LoadBalance::better_plan() {
  if (!may_gain()) return std::nullopt;
  auto plan = parallel::balanced_plan(options_, costs_, arenas_);
  expected_gain_ = plan ? step_seconds(plan_, costs_) / step_seconds(*plan, costs_) : 1;
  if (expected_gain_ >= rule_.least_gain) return plan;
  wait_ = rule_.fruitless;
  return std::nullopt;
}

void LoadBalance::change_to(parallel::MicrobatchPlan plan) {
  before_ = std::exchange(plan_, std::move(plan));
  exchanges_ = 0;
  confirmed_ = 0;
}

bool LoadBalance::judge_trial() {
  const double now = std::min(window_[0].step_seconds, window_[1].step_seconds);
  const double then = *std::exchange(seconds_to_beat_, std::nullopt);
  if (now <= kSlower * then) {
    next_wait_ = std::max(kLeastWait, next_wait_ / 2);
    return false;
  }
  wait_ = std::exchange(next_wait_, std::min(kLongestWait, 2 * next_wait_));
  expected_gain_ = now / then;
  went_back_ = fmt::format("a step took {:.3g} s after the move, and {:.3g} s before", now, then);
  change_to(before_);
  return true;
}

}  // namespace distdl::train
