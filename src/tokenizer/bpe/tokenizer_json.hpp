// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/tokenizer/bpe/added_tokens.hpp>
#include <distdl/tokenizer/bpe/byte_pairs.hpp>
#include <distdl/tokenizer/bpe/splitters.hpp>

namespace distdl::tokenizer {

/// The content of a tokenizer.json, as far as token numbers depend on it.
struct TokenizerParts {
  std::vector<std::string> bytes;  ///< for each token what it stands for; empty: there is no such token
  std::array<Token, 256> of_byte{};
  MergeTable merge_table{0};
  bool takes_whole_words = false;  ///< a word of `words` is one token, whatever merges would make of it
  std::vector<Token> words;        ///< tokens of the vocabulary that stand for bytes
  std::vector<AddedToken> added;   ///< in the order of their numbers
  Splitter split = nullptr;
  bool begins_with_space = false;  ///< a space is put before each text that has none in front
  bool is_normalized = false;      ///< texts get Unicode's form NFC
};

inline constexpr std::size_t kLargestTokenizer = 128 << 20;  ///< bytes of a tokenizer.json
inline constexpr std::size_t kLargestToken = (1 << 24) - 1;  ///< number of a token

/// Reads a tokenizer.json of Hugging Face's tokenizers: byte-level BPE. Throws ConfigError that begins with `name`:
/// damaged, or of a kind that is not supported, which it names.
TokenizerParts read_tokenizer_json(std::string_view text, const std::string& name);

/// The tokenizer.json of GPT-2's vocab.json and merges.txt. Throws ConfigError.
std::string json_of_gpt2(std::string_view vocabulary, std::string_view merge_lines, const std::string& name);

}  // namespace distdl::tokenizer
