// SPDX-License-Identifier: Apache-2.0
#include <distdl/capi/library/options_text.hpp>

namespace distdl::capi {
namespace {
std::string_view without_blanks(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}
std::string_view without_quotes(std::string_view text) {
  const bool is_quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}
}  // namespace

std::vector<OptionText> options_in(const char* text) {
  std::vector<OptionText> options;
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    const auto end = rest.find_first_of(";\n");
    const auto part = without_blanks(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (part.empty()) continue;
    const auto middle = part.find('=');
    require(middle != std::string_view::npos, "the option \"{}\" has no \"=\"", part);
    options.push_back({std::string(without_blanks(part.substr(0, middle))),
                       std::string(without_quotes(without_blanks(part.substr(middle + 1))))});
  }
  return options;
}

}  // namespace distdl::capi
