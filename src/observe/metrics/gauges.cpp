// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <fmt/format.h>

#include <distdl/observe/metrics/gauges.hpp>
#include <distdl/records/kinds.hpp>

namespace distdl::observe {
namespace {
/// OpenMetrics: a name with a unit ends with it.
std::string_view unit_of(std::string_view metric) {
  static constexpr std::array<std::string_view, 3> kUnits{"seconds", "bytes", "ratio"};
  for (const std::string_view unit : kUnits)
    if (metric.ends_with(unit)) return unit;
  return "";
}
}  // namespace

void Gauges::take(const records::Row& row) {
  const std::lock_guard lock(mutex_);
  const auto set = [this](const records::Field& field, double value) {
    gauges_[field.metric] = {field.meaning, value};
  };
  for (const records::Field& field : records::common_fields()) {
    if (field.name == "time") set(field, row.time);
    if (field.name == "start" && row.start.value_or(0) > 0) set(field, static_cast<double>(*row.start));
  }
  for_each_number(row.record, set);
}

std::string Gauges::text() const {
  std::string text;
  const std::string run = escaped_label(run_);
  const std::lock_guard lock(mutex_);
  for (const auto& [name, gauge] : gauges_) {
    text += fmt::format("# TYPE {} gauge\n", name);
    if (const auto unit = unit_of(name); !unit.empty()) text += fmt::format("# UNIT {} {}\n", name, unit);
    text += fmt::format("# HELP {} {}\n{}{{run=\"{}\"}} {}\n", name, gauge.meaning, name, run, gauge.value);
  }
  return text + "# EOF\n";
}

std::string escaped_label(std::string_view value) {
  std::string result;
  for (const char c : value) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace distdl::observe
