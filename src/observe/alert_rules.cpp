// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/errors.hpp>
#include <distdl/observe/alert_rules.hpp>

namespace distdl::observe {
namespace {
constexpr std::int64_t kMostAlertSteps = 10000;
constexpr double kLongestCommand = 3600;  // seconds
}  // namespace

double limit_of(const AlertRule& rule) {
  constexpr double kUsual = 0.5, kUsualFree = 0.05;
  if (rule.limit > 0) return rule.limit;
  return rule.when == AlertKind::disk_filling ? kUsualFree : kUsual;
}

void check(const AlertRule& rule, const std::string& where) {
  const bool is_share = rule.when != AlertKind::loss_rising;
  require(rule.limit >= 0 && rule.limit <= (is_share ? 1 : 1e6), "{}alert.limit is {}, but must be {}", where,
          rule.limit, is_share ? "between 0 (the usual one) and 1" : "0 (the usual one) or above");
  require(rule.when != AlertKind::loss_not_finite || rule.limit == 0,
          "{}alert.limit has no meaning for \"loss not finite\"; leave it out", where);
  require(rule.steps >= 1 && rule.steps <= kMostAlertSteps, "{}alert.steps is {}, but must be between 1 and {}", where,
          rule.steps, kMostAlertSteps);
  require(rule.timeout_seconds > 0 && rule.timeout_seconds <= kLongestCommand,
          "{}alert.timeout_seconds is {}, but must be above 0 and at most {}", where, rule.timeout_seconds,
          kLongestCommand);
  require(!rule.run.empty() || !rule.file.empty(),
          "{}an alert does nothing: give it run = [\"command\", \"argument\"], or file = \"alerts.txt\"", where);
  require(rule.run.empty() || !rule.run.front().empty(), "{}the first text of alert.run must name a command", where);
}

}  // namespace distdl::observe
