// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <boost/locale/utf.hpp>
#include <fmt/format.h>

#include <distdl/base/printable.hpp>

namespace distdl {
namespace {
namespace utf = boost::locale::utf;

bool is_plain(char c) {
  return (c >= ' ' && c <= '~') || c == '\t';
}

/// Control characters, line and paragraph separators, and what turns the direction of writing.
bool is_harmful(utf::code_point c) {
  return (c < 0x20 && c != '\t') || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200e && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

std::string escape(utf::code_point c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  return c < 0x80 ? fmt::format("\\x{:02x}", c) : fmt::format("\\u{:04x}", c);
}
}  // namespace

bool is_utf8(std::string_view text) {
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    const auto code = utf::utf_traits<char>::decode(at, end);
    if (code == utf::illegal || code == utf::incomplete) return false;
  }
  return true;
}

std::string printable(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string result;
  result.reserve(text.size() + 8);
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    const char* next = at;
    const auto code = utf::utf_traits<char>::decode(next, end);
    if (code == utf::illegal || code == utf::incomplete) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(*at));
      next = at + 1;
    } else if (is_harmful(code)) {
      result += escape(code);
    } else {
      result.append(at, next);
    }
    at = next;
  }
  return result;
}

}  // namespace distdl
