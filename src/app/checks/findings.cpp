// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/app/checks/findings.hpp>
#include <distdl/base/console.hpp>

namespace distdl::app {
namespace {
constexpr const char* kHealthNames[] = {"ok", "warn", "fail"};
}  // namespace

void print_table(const std::vector<Finding>& findings) {
  const Console console(STDOUT_FILENO);
  static constexpr Colour kHealthColours[] = {Colour::green, Colour::yellow, Colour::red};
  for (const auto& finding : findings) {
    const auto i = static_cast<std::size_t>(finding.health);
    fmt::print("{}{:<12}{}{}\n", console.coloured(fmt::format("{:<5}", kHealthNames[i]), kHealthColours[i]),
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
