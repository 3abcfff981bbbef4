// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace distdl::data {

/// The key under which the state of a checkpoint has the tokenizer of its tokens, packed.
inline constexpr const char* kTokenizerState = "data.tokenizer";

/// A text in fewer bytes, which are a text, too: zstd, in base64.
std::string packed_text(std::string_view text);
/// Throws StorageError (corrupt) unless packed_text() has made it of at most `most` bytes.
std::string unpacked_text(const std::string& packed, std::size_t most);

}  // namespace distdl::data
