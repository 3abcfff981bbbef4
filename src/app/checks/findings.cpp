// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/app/checks/findings.hpp>

namespace distdl::app {
namespace {
constexpr const char* kHealthNames[] = {"ok", "warn", "fail"};
}  // namespace

void print_table(const std::vector<Finding>& findings) {
  const bool colour = ::isatty(STDOUT_FILENO) == 1;
  static constexpr const char* kColours[] = {"\033[32m", "\033[33m", "\033[31m"};
  for (const auto& finding : findings) {
    const auto i = static_cast<std::size_t>(finding.health);
    fmt::print("{}{:<5}{}{:<12}{}{}\n", colour ? kColours[i] : "", kHealthNames[i], colour ? "\033[0m" : "",
               finding.what, finding.found, finding.advice.empty() ? "" : "\n                 -> " + finding.advice);
  }
}

nlohmann::ordered_json to_json(const std::vector<Finding>& findings) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& finding : findings)
    rows.push_back({{"what", finding.what},
                    {"health", kHealthNames[static_cast<std::size_t>(finding.health)]},
                    {"found", finding.found},
                    {"advice", finding.advice}});
  return rows;
}

bool has_failed(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.health == Health::fail; });
}

}  // namespace distdl::app
