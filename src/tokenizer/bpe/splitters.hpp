// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace distdl::tokenizer {

/// Returns where the word that begins at text[at] ends; at < text.size(). A text is one word after the other.
using Splitter = std::size_t (*)(std::string_view text, std::size_t at);

/// A regular expression of pre-tokenizers, and the function that splits as it does.
struct KnownSplit {
  std::string_view name;  ///< models that have it
  std::string_view expression;
  Splitter split;
};
/// The first is the one that pre-tokenizers of the type ByteLevel have themselves.
std::span<const KnownSplit> known_splits();

/// Whether every splitter of the table begins a word at text[at], whatever precedes and follows, and NFC joins nothing
/// across it. So long texts may be encoded in pieces.
bool is_cut(std::string_view text, std::size_t at);

}  // namespace distdl::tokenizer
