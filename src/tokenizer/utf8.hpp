// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Text of tokens, which may end within a character.
namespace distdl::tokenizer {

/// How many bytes at the end of a text may be the beginning of a character of UTF-8: 0 to 3.
std::size_t incomplete_end(std::string_view text);
/// The text with U+FFFD for each byte that is not UTF-8.
std::string with_replacements(std::string_view text);

}  // namespace distdl::tokenizer
