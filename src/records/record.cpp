// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <distdl/base/exit_codes.hpp>
#include <distdl/records/record.hpp>

namespace distdl::records {

const Kind& kind_of(const Record& record) {
  return std::visit([]<class R>(const R&) -> const Kind& { return R::kKind; }, record);
}

std::string_view name_of(const Record& record) {
  const auto* const other = std::get_if<Other>(&record);
  return other ? other->event : kind_of(record).name;
}

std::string step_text(Step step) {
  return step == kNoStep ? "a step that is not known" : fmt::format("step {}", step);
}

std::optional<Step> step_of(const Record& record) {
  return std::visit(
      [](const auto& each) -> std::optional<Step> {
        if constexpr (requires { each.step.value; })
          return each.step == kNoStep ? std::nullopt : std::optional(each.step);
        else if constexpr (requires { each.step; })
          return each.step;
        else
          return std::nullopt;
      },
      record);
}

std::string job_of(const Record& record) {
  return std::visit(
      [](const auto& each) -> std::string {
        if constexpr (requires { each.job; })
          return each.job;
        else
          return {};
      },
      record);
}

std::string cause_of(const Record& record) {
  return std::visit(
      [](const auto& each) -> std::string {
        if constexpr (requires { each.cause; })
          return each.cause;
        else
          return {};
      },
      record);
}

std::string cause_code_of(const Record& record) {
  return std::visit(
      [](const auto& each) -> std::string {
        if constexpr (requires { each.cause_code; })
          return each.cause_code;
        else
          return {};
      },
      record);
}

bool is_planned(const LaunchEnded& end) {
  return end.asked_to_stop || end.code == 0 || end.code == static_cast<int>(ExitCode::requeue);
}

}  // namespace distdl::records
