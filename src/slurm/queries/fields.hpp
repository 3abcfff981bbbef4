// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace distdl::slurm {

/// One of Slurm's records as "key=value" fields.
class Fields {
 public:
  /// The value; empty where there is none: "(null)", "N/A", "None".
  std::string text(const std::string& key) const;
  bool has(const std::string& key) const { return values_.contains(key); }
  template <class Number>
  Number number(const std::string& key, Number otherwise) const;
  /// Keeps the later one of two values, because a name's pretended keys come before, unless the key is settled.
  void set(std::string key, std::string value) {
    if (!settled_.contains(key)) values_[std::move(key)] = std::move(value);
  }
  /// Later values of the keys so far do not count: a comment of several lines may pretend them.
  void settle() {
    for (const auto& [key, value] : values_) settled_.insert(key);
  }
  void append(const std::string& key, std::string_view more) {
    if (!settled_.contains(key)) values_[key].append(" ").append(more);
  }
  bool empty() const { return values_.empty(); }

 private:
  std::map<std::string, std::string> values_;
  std::set<std::string> settled_;
};

/// The records of a text in which each begins with a word "begin=...". Words without a key belong to the value before.
std::vector<Fields> records_in(const std::string& text, std::string_view begin);

/// Lines of "Key   = value".
Fields settings_fields_in(const std::string& text);

/// The number at the begin of a text. Nothing if there is none.
template <class Number>
std::optional<Number> number_at(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

template <class Number>
Number Fields::number(const std::string& key, Number otherwise) const {
  return number_at<Number>(text(key)).value_or(otherwise);
}

}  // namespace distdl::slurm
