// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/tokenizer/tokenizer.hpp>

namespace distdl::tokenizer {

/// The numbers are those of SentencePiece's files, and of GGUF.
enum class PieceKind : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct SentencePiece {
  std::string text;  ///< UTF-8; a space is U+2581
  float score = 0;
  PieceKind kind = PieceKind::normal;
};

enum class PieceAlgorithm : std::uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };

/// The content of a tokenizer.model, as far as tokens depend on it.
struct SentencePieceModel {
  std::vector<SentencePiece> pieces;  ///< by the numbers of their tokens
  PieceAlgorithm algorithm = PieceAlgorithm::unigram;
  bool byte_fallback = false;  ///< characters that are in no piece become tokens of their bytes, not the unknown one
  bool space_is_suffix = false;
  bool adds_space = true;               ///< a space is put before each text
  bool removes_spaces = true;           ///< at both ends of a text, and all but one of several
  bool escapes_spaces = true;           ///< pieces have U+2581 for a space
  std::string rules;                    ///< by which texts are normalized: normalization_rules.hpp; empty: by none
  std::string unknown = " \u2047 ";     ///< the text for the unknown token
  std::optional<Token> beginning, end;  ///< control symbols such as <s> and </s>

  /// Whether it works as Llama 2's, which alone transformers' LlamaTokenizer and llama.cpp's tokenizer "llama" compute.
  bool is_like_llama() const {
    return algorithm == PieceAlgorithm::bpe && byte_fallback && rules.empty() && !removes_spaces && !space_is_suffix &&
           escapes_spaces;
  }
};

/// Reads SentencePiece's protobuf (sentencepiece_model.proto of github.com/google/sentencepiece). Throws ConfigError
/// that begins with `name`: damaged, or of a kind that is not supported, which it names.
SentencePieceModel read_sentence_pieces(std::string_view content, const std::string& name);

}  // namespace distdl::tokenizer
