// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>

#include <distdl/slurm/queries/fields.hpp>

namespace distdl::slurm {
namespace {
/// Keys whose value is all of the line, where they are first in one.
constexpr std::array<std::string_view, 8> kFreeText{"Command",       "WorkDir", "Comment", "AdminComment",
                                                    "SystemComment", "StdErr",  "StdIn",   "StdOut"};

bool is_key(std::string_view text) {
  return !text.empty() && std::isupper(static_cast<unsigned char>(text[0])) != 0 &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '/' || c == ':' || c == '_';
         });
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  return begin == std::string_view::npos ? std::string_view{}
                                         : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// Reads the words of one line after another.
class Reader {
 public:
  explicit Reader(std::string_view begin) : begin_(begin) {}

  void take(std::string_view line) {
    line = trimmed(line);
    const auto equals = line.find('=');
    if (equals != std::string_view::npos && std::ranges::count(kFreeText, line.substr(0, equals)) > 0 &&
        !records_.empty()) {
      if (line.substr(0, equals).ends_with("Comment")) records_.back().settle();
      records_.back().set(std::string(line.substr(0, equals)), std::string(line.substr(equals + 1)));
      return;
    }
    last_.clear();
    while (!line.empty()) {
      if (line.starts_with(kName) && !records_.empty()) {
        line = take_name(line.substr(kName.size()));
        continue;
      }
      const auto space = line.find(' ');
      take_word(line.substr(0, space));
      line = space == std::string_view::npos ? std::string_view{} : trimmed(line.substr(space));
    }
  }
  std::vector<Fields> records() && { return std::move(records_); }

 private:
  static constexpr std::string_view kName = "JobName=";

  /// The rest of its line, which on one line with all others ends at the next key. Returns what is behind it.
  std::string_view take_name(std::string_view line) {
    const auto end = line.find(" UserId=");
    records_.back().set("JobName", std::string(line.substr(0, end)));
    return end == std::string_view::npos ? std::string_view{} : line.substr(end + 1);
  }
  void take_word(std::string_view word) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos || !is_key(word.substr(0, equals))) {
      if (!last_.empty()) records_.back().append(last_, word);
      return;
    }
    const auto key = word.substr(0, equals);
    if (key == begin_) records_.emplace_back();
    if (records_.empty()) return;
    last_ = std::string(key);
    records_.back().set(last_, std::string(word.substr(equals + 1)));
  }

  std::string_view begin_;
  std::vector<Fields> records_;
  std::string last_;  ///< key of this line
};
}  // namespace

std::string Fields::text(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return "";
  const std::string& value = found->second;
  return value == "(null)" || value == "N/A" || value == "None" ? "" : value;
}

std::vector<Fields> records_in(const std::string& text, std::string_view begin) {
  Reader reader(begin);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) reader.take(line);
  return std::move(reader).records();
}

Fields settings_fields_in(const std::string& text) {
  Fields fields;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find('=');
    if (equals == std::string::npos) continue;
    const auto key = trimmed(std::string_view(line).substr(0, equals));
    if (!key.empty()) fields.set(std::string(key), std::string(trimmed(std::string_view(line).substr(equals + 1))));
  }
  return fields;
}

}  // namespace distdl::slurm
