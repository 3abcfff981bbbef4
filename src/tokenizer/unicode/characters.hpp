// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace distdl::tokenizer {

/// The classes that pre-tokenizers tell apart: \p{L}, \p{N}, \s, and all else.
enum class CharacterClass : std::uint8_t { other, letter, number, space };

inline constexpr std::uint32_t kCharacters = 0x110000;
inline constexpr std::uint32_t kInvalid = kCharacters;  ///< stands for a byte that is not UTF-8

/// For each character, and kInvalid: its class in the low two bits, and kUnstable.
const std::uint8_t* character_properties();
inline constexpr std::uint8_t kClassBits = 3;
inline constexpr std::uint8_t kUnstable = 4;  ///< NFC may change it, or join it to what is before

/// A character in a text.
struct Character {
  std::uint32_t code = kInvalid;
  std::size_t bytes = 1;
};
/// The character that begins at text[at], which must exist. A byte that does not belong to valid UTF-8 is kInvalid, of
/// one byte.
Character character_at(std::string_view text, std::size_t at) noexcept;
/// The character, or byte of invalid UTF-8, that ends before text[end]; end > 0.
Character character_before(std::string_view text, std::size_t end) noexcept;
void append_utf8(std::uint32_t code, std::string& text);

inline CharacterClass class_of(std::uint32_t code) noexcept {
  static const std::uint8_t* const properties = character_properties();
  return static_cast<CharacterClass>(properties[code] & kClassBits);
}

}  // namespace distdl::tokenizer
