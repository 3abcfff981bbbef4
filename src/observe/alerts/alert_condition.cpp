// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include <distdl/base/median.hpp>
#include <distdl/observe/alerts/alert_condition.hpp>

namespace distdl::observe {

void AlertCondition::take(const records::Row& row) {
  if (const auto* const done = row.as<records::StepDone>()) take(*done, row.time);
  if (cause_code_of(row.record) == "diverged") diverged_ = std::max(diverged_, row.time);
}

void AlertCondition::take(const records::StepDone& done, double time) {
  step_ = done.step;
  last_step_ = std::max(last_step_, time);
  const auto value = rule_.when == AlertKind::loss_rising         ? done.loss
                     : rule_.when == AlertKind::throughput_halved ? done.samples_per_s
                                                                  : std::nullopt;
  if (!value) return;
  window_.push_back(*value);
  sum_ += *value;
  if (window_.size() > static_cast<std::size_t>(rule_.steps)) {
    sum_ -= window_.front();
    window_.pop_front();
  }
  compare_window();
}

void AlertCondition::compare_window() {
  constexpr std::int64_t kLooks = 10;  // while the window is renewed: a median costs as much as the window is long
  const bool is_full = window_.size() == static_cast<std::size_t>(rule_.steps);
  const bool is_mean = rule_.when == AlertKind::loss_rising;
  if (!is_full || (!is_mean && ++since_compared_ < std::max<std::int64_t>(1, rule_.steps / kLooks))) return;
  since_compared_ = 0;
  now_ = is_mean ? sum_ / static_cast<double>(window_.size()) : median({window_.begin(), window_.end()});
  const auto better = [is_mean](double a, double b) { return is_mean ? std::min(a, b) : std::max(a, b); };
  extreme_ = better(*now_, extreme_.value_or(*now_));
}

std::optional<std::string> AlertCondition::cause_of_window() const {
  if (!now_ || !extreme_) return std::nullopt;
  const double limit = limit_of(rule_);
  if (rule_.when == AlertKind::loss_rising && *now_ > *extreme_ * (1 + limit))
    return fmt::format("the mean loss of {} steps is {:.4g}, but was {:.4g}", rule_.steps, *now_, *extreme_);
  if (rule_.when == AlertKind::throughput_halved && *now_ < *extreme_ * limit)
    return fmt::format("{:.4g} samples/s, the median of {} steps, but it was {:.4g}", *now_, rule_.steps, *extreme_);
  return std::nullopt;
}

std::optional<std::string> AlertCondition::cause(const AlertFacts& facts) const {
  const double limit = limit_of(rule_);
  switch (rule_.when) {
    case AlertKind::loss_not_finite:
      if (diverged_ > 0 && diverged_ >= last_step_) return "a loss became infinite or not a number";
      return std::nullopt;
    case AlertKind::loss_rising:
    case AlertKind::throughput_halved:
      return cause_of_window();
    case AlertKind::goodput_low:
      if (!facts.goodput || *facts.goodput >= limit) return std::nullopt;
      return fmt::format("goodput is {:.1f}%, below {:.1f}%", *facts.goodput * 100, limit * 100);
    case AlertKind::disk_filling:
      if (!facts.free_share || *facts.free_share >= limit) return std::nullopt;
      return fmt::format("{:.1f}% of the file system of the run folder is free, below {:.1f}%", *facts.free_share * 100,
                         limit * 100);
  }
  return std::nullopt;
}

}  // namespace distdl::observe
