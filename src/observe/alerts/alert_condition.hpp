// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include <distdl/observe/alert_rules.hpp>
#include <distdl/records/record.hpp>

namespace distdl::observe {

/// Measurements for the rules that need more than rows. They are made when a rule is asked.
struct AlertFacts {
  std::optional<double> goodput = {};     ///< goodput of the jobs so far, 0 .. 1; empty: it is too early to tell
  std::optional<double> free_share = {};  ///< free share of the run folder's file system, 0 .. 1; empty: not known
};

/// Condition of an alert rule. It depends on the rows and the facts alone.
class AlertCondition {
 public:
  explicit AlertCondition(AlertRule rule) : rule_(std::move(rule)) {}
  /// Rows in the order of their files.
  void take(const records::Row& row);
  /// Why the rule holds now, in words; nothing: it does not.
  std::optional<std::string> cause(const AlertFacts& facts) const;
  /// Steps done by the newest row; nothing: there was none.
  std::optional<Step> step() const { return step_; }

 private:
  void take(const records::StepDone& done, double time);
  /// The mean or median of the newest steps, once there are enough of them.
  void compare_window();
  std::optional<std::string> cause_of_window() const;

  AlertRule rule_;
  std::deque<double> window_;        ///< losses or samples/s of the newest steps
  double sum_ = 0;                   ///< sum of the window
  std::int64_t since_compared_ = 0;  ///< rows since the last comparison of medians
  /// Mean or median of the newest window; the lowest mean or highest median so far.
  std::optional<double> now_, extreme_;
  std::optional<Step> step_;
  double diverged_ = 0, last_step_ = 0;  ///< times of rows, seconds since 1970; 0: none
};

}  // namespace distdl::observe
