// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

#include <distdl/slurm/duration.hpp>

namespace distdl::slurm {
namespace {
constexpr std::int64_t kMinute = 60, kHour = 3600, kDay = 86400, kLongest = kDay * 100 * 365;

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc{} && end == text.data() + text.size();
  return is_whole && number >= 0 && number <= kLongest ? std::optional(number) : std::nullopt;
}

/// Reads a duration of numbers with colons between them. `units`: seconds in one unit of each number, the first one's
/// first.
std::optional<std::int64_t> clock_in(std::string_view text, const std::vector<std::int64_t>& units) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto colon = text.find(':');
    const auto number = number_in(text.substr(0, colon));
    if (!number || (colon == std::string_view::npos) != (i + 1 == units.size())) return std::nullopt;
    sum += *number * units[i];
    if (colon != std::string_view::npos) text.remove_prefix(colon + 1);
  }
  return sum;
}

std::optional<std::int64_t> seconds_in(std::string_view text) {
  if (text.ends_with(" sec")) return number_in(text.substr(0, text.size() - 4));
  if (text.ends_with(" min")) return clock_in(text.substr(0, text.size() - 4), {kMinute});
  const auto colons = std::count(text.begin(), text.end(), ':');
  if (const auto dash = text.find('-'); dash != std::string_view::npos) {
    const auto days = clock_in(text.substr(0, dash), {kDay});
    std::vector<std::int64_t> units{kHour, kMinute, 1};
    if (colons > 2 || !days) return std::nullopt;
    units.resize(static_cast<std::size_t>(colons) + 1);
    const auto rest = clock_in(text.substr(dash + 1), units);
    return rest ? std::optional(*days + *rest) : std::nullopt;
  }
  if (colons == 2) return clock_in(text, {kHour, kMinute, 1});
  if (colons == 1) return clock_in(text, {kMinute, 1});
  return clock_in(text, {kMinute});
}
}  // namespace

std::optional<std::chrono::seconds> duration_in(const std::string& text) {
  const auto seconds = seconds_in(text);
  return seconds && *seconds <= kLongest ? std::optional(std::chrono::seconds(*seconds)) : std::nullopt;
}

}  // namespace distdl::slurm
