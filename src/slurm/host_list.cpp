// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstdint>

#include <distdl/base/errors.hpp>
#include <distdl/slurm/host_list.hpp>

namespace distdl::slurm {
namespace {
constexpr std::size_t kMostNames = 65536, kLongestName = 255, kLongestList = 1 << 20;
constexpr std::size_t kMostDigits = 18;
constexpr std::string_view kDigits = "0123456789";

/// One number or range of a bracket.
struct Range {
  std::uint64_t first = 0, last = 0;
  std::size_t width = 0;  ///< digits of the first number, with its leading zeros
};

/// Expands one list. Every complaint names it.
class Expansion {
 public:
  explicit Expansion(std::string_view list) : list_(list) {}

  std::vector<std::string> names() && {
    demand(!list_.empty() && list_.size() <= kLongestList, "it is empty, or too long");
    for (std::size_t begin = 0; begin <= list_.size();) {
      const std::size_t end = end_of_item(begin);
      expand("", list_.substr(begin, end - begin));
      begin = end + 1;
    }
    return std::move(names_);
  }

 private:
  void demand(bool condition, const char* problem) const {
    constexpr std::size_t kShown = 80;
    require<SchedulerError>(condition, "\"{}{}\" is no list of hosts: {}", list_.substr(0, kShown),
                            list_.size() > kShown ? "..." : "", problem);
  }
  /// Returns the place of the next comma that is in no bracket, or the end of the list.
  std::size_t end_of_item(std::size_t begin) const {
    bool in_bracket = false;
    for (std::size_t at = begin; at < list_.size(); ++at) {
      const char c = list_[at];
      if (c == '[' || c == ']') {
        demand(in_bracket == (c == ']'), c == '[' ? "a bracket in a bracket" : "a bracket that was not opened");
        in_bracket = c == '[';
      }
      if (c == ',' && !in_bracket) return at;
    }
    demand(!in_bracket, "a bracket that is not closed");
    return list_.size();
  }
  /// All names that begin with `prefix` and go on as `item` says.
  void expand(const std::string& prefix, std::string_view item) {
    const auto open = item.find('[');
    const std::string name = prefix + std::string(item.substr(0, open));
    demand(name.size() <= kLongestName, "a name is too long");
    if (open == std::string_view::npos) return add(name);
    const auto close = item.find(']', open);
    std::string_view rest = item.substr(open + 1, close - open - 1);
    for (bool more = true; more;) {
      const auto comma = rest.find(',');
      const Range range = range_in(rest.substr(0, comma));
      for (std::uint64_t number = range.first; number <= range.last; ++number)
        expand(name + padded(number, range.width), item.substr(close + 1));
      more = comma != std::string_view::npos;
      if (more) rest.remove_prefix(comma + 1);
    }
  }
  void add(const std::string& name) {
    const bool is_name = !name.empty() && name[0] != '-' && std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
             c == '_';
    });
    demand(is_name, "a name is empty, or has a character that no host's name has");
    demand(names_.size() < kMostNames, "more names than 65536");
    names_.push_back(name);
  }
  std::uint64_t number_in(std::string_view text) const {
    demand(!text.empty() && text.size() <= kMostDigits && text.find_first_not_of(kDigits) == std::string_view::npos,
           "a bracket holds something else than numbers and ranges");
    std::uint64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);  // nothing but digits, and not too many
    return number;
  }
  Range range_in(std::string_view text) const {
    const auto dash = text.find('-');
    const auto first = text.substr(0, dash);
    const Range range{number_in(first), number_in(dash == std::string_view::npos ? first : text.substr(dash + 1)),
                      first.size()};
    demand(range.first <= range.last, "a range ends before it begins");
    demand(range.last - range.first < kMostNames, "more names than 65536");
    return range;
  }
  static std::string padded(std::uint64_t number, std::size_t width) {
    const std::string digits = std::to_string(number);
    return std::string(digits.size() < width ? width - digits.size() : 0, '0') + digits;
  }

  std::string_view list_;
  std::vector<std::string> names_;
};
}  // namespace

std::vector<std::string> expand_host_list(std::string_view list) {
  return Expansion(list).names();
}

}  // namespace distdl::slurm
