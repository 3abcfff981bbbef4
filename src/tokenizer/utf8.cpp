// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include <distdl/tokenizer/unicode/characters.hpp>
#include <distdl/tokenizer/utf8.hpp>

namespace distdl::tokenizer {

std::size_t incomplete_end(std::string_view text) {
  for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(3, text.size()); ++bytes) {
    const auto byte = static_cast<std::uint8_t>(text[text.size() - bytes]);
    const std::size_t needed = byte >= 0xf0 && byte < 0xf5 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
    if (byte >= 0xf5 || byte < 0x80) return 0;
    if (byte >= 0xc0) return needed > bytes ? bytes : 0;
  }
  return 0;
}

std::string with_replacements(std::string_view text) {
  std::string valid;
  for (std::size_t at = 0; at < text.size();) {
    const Character found = character_at(text, at);
    if (found.code == kInvalid)
      valid += "\xef\xbf\xbd";
    else
      valid.append(text, at, found.bytes);
    at += found.bytes;
  }
  return valid;
}

}  // namespace distdl::tokenizer
