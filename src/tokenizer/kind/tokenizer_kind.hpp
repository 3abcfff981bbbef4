// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/tokenizer/tokenizer.hpp>

namespace distdl::tokenizer {

/// Makes tokens of texts, in one thread. The kind that made it lives longer.
class KindEncoder {
 public:
  virtual ~KindEncoder() = default;
  /// As Encoder::encode().
  virtual void encode(std::string_view text, TextPart part, std::vector<Token>& tokens) = 0;
};

/// A kind of tokenizer, behind Tokenizer, which documents the functions of the same names. Thread-safe.
class TokenizerKind {
 public:
  virtual ~TokenizerKind() = default;
  virtual std::string_view file_name() const = 0;
  /// For each token the bytes that it stands for.
  virtual const std::vector<std::string>& bytes() const = 0;
  /// The part of bytes()[token] that the token adds to a text. `begins`: the text has none yet that counts; true at
  /// first.
  virtual std::string_view decoded(Token token, bool& begins) const = 0;
  virtual std::optional<Token> added_token(std::string_view content) const = 0;
  virtual std::optional<Token> end_of_text() const = 0;
  virtual std::string_view split() const = 0;
  virtual bool may_cut(std::string_view text, std::size_t at) const = 0;
  virtual std::unique_ptr<KindEncoder> make_encoder() const = 0;
};

}  // namespace distdl::tokenizer
