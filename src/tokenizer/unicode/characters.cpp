// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <distdl/tokenizer/unicode/characters.hpp>
#include <distdl/tokenizer/unicode/unicode_tables.hpp>

namespace distdl::tokenizer {

const std::uint8_t* character_properties() {
  static const std::vector<std::uint8_t> all = [] {
    std::vector<std::uint8_t> values(kCharacters + 1, 0);
    for (const auto& [first, last, value] : properties())
      std::fill(values.begin() + first, values.begin() + last + 1, static_cast<std::uint8_t>(value));
    return values;
  }();
  return all.data();
}

Character character_at(std::string_view text, std::size_t at) noexcept {
  constexpr std::uint32_t kSurrogates = 0xd800, kAfterSurrogates = 0xe000;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[at + i]); };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const std::uint32_t lead = byte(0);
  const std::size_t left = text.size() - at;
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xc2 && lead < 0xe0 && left >= 2 && follows(1)) return {(lead & 0x1fu) << 6 | (byte(1) & 0x3fu), 2};
  if (lead >= 0xe0 && lead < 0xf0 && left >= 3 && follows(1) && follows(2)) {
    const std::uint32_t code = (lead & 0xfu) << 12 | (byte(1) & 0x3fu) << 6 | (byte(2) & 0x3fu);
    if (code >= 0x800 && (code < kSurrogates || code >= kAfterSurrogates)) return {code, 3};
  }
  if (lead >= 0xf0 && lead < 0xf5 && left >= 4 && follows(1) && follows(2) && follows(3)) {
    const std::uint32_t code = (lead & 7u) << 18 | (byte(1) & 0x3fu) << 12 | (byte(2) & 0x3fu) << 6 | (byte(3) & 0x3fu);
    if (code >= 0x10000 && code < kCharacters) return {code, 4};
  }
  return {};
}

Character character_before(std::string_view text, std::size_t end) noexcept {
  constexpr std::size_t kMostBytes = 4;
  for (std::size_t bytes = 1; bytes <= std::min(kMostBytes, end); ++bytes)
    if (const Character found = character_at(text.substr(0, end), end - bytes);
        found.bytes == bytes && found.code != kInvalid)
      return found;
  return {};
}

void append_utf8(std::uint32_t code, std::string& text) {
  const auto put = [&](std::uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3f));
    }
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

}  // namespace distdl::tokenizer
