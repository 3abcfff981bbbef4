// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <distdl/train/load_balance.hpp>

namespace distdl::train {
namespace {
constexpr double kLeastGain = 1.1;                          ///< of a step's time, for which microbatches move
constexpr int kConfirmations = 2;                           ///< exchanges in a row that must promise it
constexpr std::size_t kTrial = 2;                           ///< exchanges after which a move is judged
constexpr double kSlower = 1.03;                            ///< the steps after a move may not be slower than this
constexpr std::int64_t kLeastWait = 4, kLongestWait = 256;  ///< exchanges
constexpr std::int64_t kFruitless = 8;                      ///< exchanges after a search that has found no better plan
constexpr double kSecondsBetween = 1;                       ///< exchanges
constexpr double kMostSteps = 1 << 16;                      ///< between exchanges

double middle(double a, double b, double c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}
}  // namespace

LoadBalance::LoadBalance(parallel::Options options, parallel::MicrobatchPlan equal, std::vector<std::size_t> arenas)
    : options_(std::move(options)), plan_(std::move(equal)), before_(plan_), arenas_(std::move(arenas)) {}

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
  if (confirmed_ < kConfirmations) return false;
  const auto step = [](const Exchange& each) { return each.step_seconds; };
  seconds_to_beat_ = middle(step(window_[0]), step(window_[1]), step(window_[2]));
  change_to(std::move(*plan));
  return true;
}

void LoadBalance::refuse(std::vector<std::size_t> arenas) {
  seconds_to_beat_.reset();
  change_to(before_);
  arenas_ = std::move(arenas);
}

void LoadBalance::remember(std::span<const RankTimes> times) {
  Exchange& newest = window_[exchanges_++ % kWindow];
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

void LoadBalance::find_medians() {
  const auto& [a, b, c] = window_;
  costs_.microbatch_seconds.resize(plan_.ranges.size());
  for (std::size_t r = 0; r < plan_.ranges.size(); ++r)
    costs_.microbatch_seconds[r] =
        middle(a.times[r].microbatch_seconds, b.times[r].microbatch_seconds, c.times[r].microbatch_seconds);
  costs_.other_seconds = middle(a.other_seconds, b.other_seconds, c.other_seconds);
  costs_.partials = parallel::most_partials(plan_);
}

bool LoadBalance::may_gain() const {
  double speed = 0;
  for (double seconds : costs_.microbatch_seconds) speed += 1 / seconds;
  return step_seconds(plan_, costs_) >= kLeastGain * (plan_.microbatches / speed + costs_.other_seconds);
}

std::optional<parallel::MicrobatchPlan> LoadBalance::better_plan() {
  if (!may_gain()) return std::nullopt;
  auto plan = parallel::balanced_plan(options_, costs_, arenas_);
  expected_gain_ = plan ? step_seconds(plan_, costs_) / step_seconds(*plan, costs_) : 1;
  if (expected_gain_ >= kLeastGain) return plan;
  wait_ = kFruitless;
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
