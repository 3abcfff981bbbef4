// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <distdl/base/ids.hpp>
#include <distdl/records/field.hpp>

namespace distdl::records {
inline constexpr const char* kRuleMeaning = "number of the table [[alert]] in the job file, from 1";

/// A rule [[alert]] of the job began to hold.
struct AlertRaised {
  static constexpr Kind kKind{"alert", "a rule [[alert]] of the job began to hold"};

  std::int64_t rule = 0;  ///< its number in the job file, from 1
  std::string when = {};  ///< "loss rising"
  std::string cause = {};
  std::optional<Step> step = {};  ///< done then
};

void describe(Is<AlertRaised> auto& r, auto&& visit) {
  visit("rule", r.rule, "", kRuleMeaning);
  visit("when", r.when, "", "what it is about");
  visit("cause", r.cause, "", kCauseMeaning);
  visit("step", r.step, "steps", kStepMeaning);
}

/// A rule [[alert]] no longer holds.
struct AlertCleared {
  static constexpr Kind kKind{"alert_cleared", "it no longer holds"};

  std::int64_t rule = 0;
  std::string when = {};
};

void describe(Is<AlertCleared> auto& r, auto&& visit) {
  visit("rule", r.rule, "", kRuleMeaning);
  visit("when", r.when, "", "what it is about");
}

}  // namespace distdl::records
