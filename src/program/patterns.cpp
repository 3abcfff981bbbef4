// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/program/patterns.hpp>

namespace distdl::program {
namespace {
constexpr std::size_t kMostOfLine = 2000;  // std::regex recurses once per character

std::regex expression(const std::string& key, const std::string& text) try {
  std::regex found(text, std::regex::ECMAScript | std::regex::optimize);
  require(found.mark_count() >= 1, "{} has \"{}\", which has no group: put the number into parentheses", key,
          printable(text));
  return found;
} catch (const std::regex_error& error) {
  throw ConfigError(
      fmt::format("{} has \"{}\", which is no regular expression: {}", key, printable(text), error.what()));
}

template <class Number>
std::optional<Number> number(const std::csub_match& match) {
  Number value{};
  const char* begin = match.first;
  if (match.matched && begin != match.second && *begin == '+') ++begin;
  if (!match.matched || std::from_chars(begin, match.second, value).ec != std::errc{}) return std::nullopt;
  return value;
}
}  // namespace

Patterns::Patterns(const Options& options) {
  if (!options.progress_pattern.empty()) progress_ = expression("run.progress_pattern", options.progress_pattern);
  for (const auto& metric : options.metrics) {
    const auto equals = metric.find('=');
    require(equals != std::string::npos && equals > 0,
            "run.metrics has \"{}\", but must have NAME=EXPRESSION, e.g. \"loss=loss: ([0-9.]+)\"", printable(metric));
    metrics_.emplace_back(metric.substr(0, equals), expression("run.metrics", metric.substr(equals + 1)));
  }
}

LineFacts Patterns::look(std::string_view line) const {
  line = line.substr(0, kMostOfLine);
  LineFacts facts;
  std::cmatch match;
  const auto* const end = line.data() + line.size();
  if (progress_ && std::regex_search(line.data(), end, match, *progress_)) {
    facts.step = number<std::int64_t>(match[1]);
    if (match.size() > 2) facts.steps = number<std::int64_t>(match[2]);
  }
  for (const auto& [name, pattern] : metrics_)
    if (std::regex_search(line.data(), end, match, pattern))
      if (const auto value = number<double>(match[1])) facts.metrics.emplace_back(name, *value);
  return facts;
}

}  // namespace distdl::program
