// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include <distdl/train/balance/microbatch_rule.hpp>

namespace distdl::train {

LoadBalance::LoadBalance(parallel::Options options, parallel::MicrobatchPlan equal, std::vector<std::size_t> arenas,
                         const MoveRule::Limits& limits)
    : options_(std::move(options)),
      plan_(std::move(equal)),
      before_(plan_),
      arenas_(std::move(arenas)),
      rule_(limits) {}

bool LoadBalance::take(std::span<const RankTimes> times) {
  const auto next = look(times);
  if (next == MoveRule::Next::go_back) std::swap(plan_, before_);
  return next == MoveRule::Next::go_back || (next == MoveRule::Next::look && find_better());
}

void LoadBalance::refuse(std::vector<std::size_t> arenas) {
  rule_.refuse();
  std::swap(plan_, before_);
  arenas_ = std::move(arenas);
}

MoveRule::Next LoadBalance::look(std::span<const RankTimes> times) {
  std::vector<double> microbatches, seconds, steps;
  for (std::size_t r = 0; r < times.size(); ++r) {
    const auto& [microbatch, step] = times[r];
    if (!std::isfinite(microbatch) || microbatch <= 0 || !std::isfinite(step)) {
      rule_.skip();
      return MoveRule::Next::stay;
    }
    microbatches.push_back(plan_.ranges[r].count);
    seconds.push_back(microbatch);
    steps.push_back(step);
  }
  return rule_.take(measured(microbatches, std::move(seconds), steps));
}

parallel::StepCosts LoadBalance::costs() const {
  return {rule_.medians().unit_seconds, rule_.medians().other_seconds, parallel::most_partials(plan_)};
}

bool LoadBalance::may_gain(const parallel::StepCosts& costs) const {
  double speed = 0;
  for (double seconds : costs.microbatch_seconds) speed += 1 / seconds;
  return step_seconds(plan_, costs) >= rule_.limits().least_gain * (plan_.microbatches / speed + costs.other_seconds);
}

bool LoadBalance::find_better() {
  const auto now = costs();
  if (!may_gain(now)) return rule_.confirm({});
  auto plan = parallel::balanced_plan(options_, now, arenas_);
  if (!rule_.confirm(plan ? step_seconds(plan_, now) / step_seconds(*plan, now) : 1)) return false;
  before_ = std::exchange(plan_, *std::move(plan));
  return true;
}

}  // namespace distdl::train
