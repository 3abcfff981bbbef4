// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include <distdl/slurm/queries/fields.hpp>
#include <distdl/slurm/warning_signal.hpp>

namespace distdl::slurm {

std::optional<WarningSignal> warning_from(const std::string& value) {
  WarningSignal warning;
  std::string text = value.substr(0, value.find('@'));
  if (value.find('@') != std::string::npos) {
    const auto before = number_at<int>(std::string_view(value).substr(value.find('@') + 1));
    if (!before || *before <= 0 || *before > 65535) return std::nullopt;  // of 0 s before the end comes none
    warning.before = std::chrono::seconds(*before);
  }
  if (const auto colon = text.find(':'); colon != std::string::npos) {
    warning.to_batch_shell = text.substr(0, colon).find('B') != std::string::npos;  // "R:" is for reservations
    text.erase(0, colon + 1);
  }
  constexpr std::array<std::pair<int, const char*>, 5> kNumbers{
      {{1, "HUP"}, {2, "INT"}, {10, "USR1"}, {12, "USR2"}, {15, "TERM"}}};
  for (const auto& [number, name] : kNumbers)
    if (text == std::to_string(number)) text = name;
  if (text.starts_with("SIG")) text.erase(0, 3);
  if (text.empty() || text == "0") return std::nullopt;
  warning.name = text;
  return warning;
}

std::optional<WarningSignal> warning_in(const std::string& script) {
  std::optional<WarningSignal> warning;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '\r') continue;
    if (line[0] != '#') break;  // sbatch reads no further than the first command
    if (!line.starts_with("#SBATCH")) continue;
    constexpr std::string_view kOption = "--signal";
    auto at = line.find(kOption);
    if (at == std::string::npos) continue;
    at = line.find_first_not_of("= \t\"'", at + kOption.size());
    if (at != std::string::npos) warning = warning_from(line.substr(at, line.find_first_of(" \t\"'\r", at) - at));
  }
  return warning;
}

}  // namespace distdl::slurm
