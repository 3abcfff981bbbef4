// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include <distdl/base/errors.hpp>

namespace distdl {

/// A row in the table of an enum whose values users choose by name.
template <class Enum>
struct Named {
  Enum value;
  std::string_view name;
  std::string_view help;
};

/// An option whose values have names. The table choices_of(Enum), a range of Named<Enum>, is defined beside the enum.
/// It provides the check, the help, the documents and the texts of errors.
template <class Enum>
class OneOf {
 public:
  constexpr OneOf(Enum value) : value_(value) {}  // NOLINT(google-explicit-constructor): it is one
  /// Throws ConfigError for a name that is not in the table.
  template <std::convertible_to<std::string_view> Text>
  OneOf(const Text& name) : value_() {  // NOLINT(google-explicit-constructor): users write names
    const auto found = find(name);
    require(found.has_value(), "\"{}\" is not {}", std::string_view(name), names());
    value_ = *found;
  }
  constexpr operator Enum() const { return value_; }  // NOLINT(google-explicit-constructor)

  std::string_view name() const {
    for (const auto& row : choices_of(Enum()))
      if (row.value == value_) return row.name;
    return "?";
  }
  static std::optional<Enum> find(std::string_view name) {
    for (const auto& row : choices_of(Enum()))
      if (row.name == name) return row.value;
    return std::nullopt;
  }
  /// The names of all values: "\"async\", \"lazy\" or \"sync\"".
  static std::string names() { return list(false); }
  /// The help text: `about: "async" (what it means), "lazy" (...) or "sync" (...)`.
  static const char* help(std::string_view about) {
    static const std::string text = fmt::format("{}: {}", about, list(true));
    return text.c_str();
  }

 private:
  static std::string list(bool explains) {
    const auto rows = choices_of(Enum());
    std::string text;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      text += fmt::format("{}\"{}\"", i == 0 ? "" : i + 1 < rows.size() ? ", " : " or ", rows[i].name);
      if (explains && !rows[i].help.empty()) text += fmt::format(" ({})", rows[i].help);
    }
    return text;
  }

  Enum value_;
};

}  // namespace distdl

template <class Enum>
struct fmt::formatter<distdl::OneOf<Enum>> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const distdl::OneOf<Enum>& value, Context& context) const {
    return fmt::formatter<std::string_view>::format(value.name(), context);
  }
};
