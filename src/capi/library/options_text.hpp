// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/base/near_word.hpp>
#include <distdl/checkpoint/options.hpp>

// Options of the C interface: "key=value" parts with the keys and values of the job file.
namespace distdl::capi {

struct OptionText {
  std::string key, value;
};
/// The parts of `text`, which newlines or ";" separate. Blanks around keys and values, and quotes around values, do not
/// count. Null: none. Throws ConfigError for a part without "=".
std::vector<OptionText> options_in(const char* text);

inline void read_value(const OptionText& option, bool& value) {
  require(option.value == "true" || option.value == "false", "{} is \"{}\", but must be true or false", option.key,
          option.value);
  value = option.value == "true";
}
inline void read_value(const OptionText& option, std::string& value) {
  value = option.value;
}
template <class Number>
requires std::integral<Number> || std::floating_point<Number>
void read_value(const OptionText& option, Number& value) {
  const char* const end = option.value.data() + option.value.size();
  const auto [rest, error] = std::from_chars(option.value.data(), end, value);
  bool is_number = error == std::errc() && rest == end;
  if constexpr (std::floating_point<Number>) is_number = is_number && std::isfinite(value);
  require(is_number, "{} is \"{}\", but must be a {}number", option.key, option.value,
          std::integral<Number> ? "whole " : "");
}
template <class Enum>
void read_value(const OptionText& option, OneOf<Enum>& value) {
  require(OneOf<Enum>::find(option.value).has_value(), "{} is \"{}\", but must be {}", option.key, option.value,
          OneOf<Enum>::names());
  value = OneOf<Enum>(option.value);
}
inline void read_value(const OptionText& option, checkpoint::Interval& value) {
  if (option.value == "auto")
    value = checkpoint::Interval::by_cost();
  else
    read_value(option, value.steps);
}

/// Sets the options that `text` names. Throws ConfigError for unknown keys and wrong values.
template <class Options>
void read_options(const char* text, Options& options) {
  for (const OptionText& option : options_in(text)) {
    bool is_known = false;
    std::vector<std::string> keys;
    describe(options, [&](const char* key, auto& value, const char*) {
      keys.emplace_back(key);
      if (option.key != key) return;
      read_value(option, value);
      is_known = true;
    });
    const std::string near = is_known ? "" : near_word(keys, option.key);
    require(is_known, "there is no option \"{}\"{}", option.key,
            near.empty() ? std::string() : fmt::format("; is \"{}\" meant?", near));
  }
}

}  // namespace distdl::capi
