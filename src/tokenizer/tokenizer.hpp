// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace distdl::tokenizer {

using Token = std::uint32_t;  ///< the number of a token

/// Where a text begins that Encoder::encode() gets.
enum class TextPart : std::uint8_t { whole, continued };

/// A tokenizer of byte-level BPE, as GPT-2, Llama 3 and Qwen have, or of SentencePiece, as Llama 2 and T5 have: texts
/// become the numbers that Hugging Face's tokenizers 0.23 and the Python package sentencepiece give, without the
/// special tokens of post-processors. Any bytes are a text; those that are not UTF-8 become tokens of single bytes,
/// with SentencePiece those of U+FFFD. Copies share what they have. Thread-safe.
class Tokenizer {
 public:
  /// `content`: of a tokenizer.json or a tokenizer.model; `name`: what messages call it. Throws ConfigError if it is
  /// damaged or of a kind that is not supported, which the message names.
  static Tokenizer parse(std::string content, const std::string& name);
  /// Reads a tokenizer.json, a tokenizer.model, GPT-2's vocab.json with the merges.txt beside it, or a folder that has
  /// one of these. Throws as parse() does, and StorageError.
  static Tokenizer read(const std::filesystem::path& file);
  /// The file that read() takes in a folder; nothing: there is none.
  static std::optional<std::filesystem::path> file_in(const std::filesystem::path& folder);

  /// As parse() got it.
  const std::string& content() const;
  /// Hugging Face's name for a file with this content: "tokenizer.json" or "tokenizer.model".
  std::string_view file_name() const;
  /// The largest number of a token, plus one.
  std::int64_t vocabulary() const;
  /// The bytes that a token stands for within a text; control symbols have their names. Empty: there is no such token.
  std::string_view bytes(std::int64_t token) const;
  /// The text that a Decoder makes of all tokens.
  std::string decode(const std::vector<Token>& tokens) const;
  /// The number of a token that stands for this text as it is, such as "<|endoftext|>". SentencePiece's control symbols
  /// are among them, which no text contains.
  std::optional<Token> added_token(std::string_view content) const;
  /// The one that ends a text, by its well-known name, "<|endoftext|>", "<|end_of_text|>", "</s>" and the like, or as
  /// the model says.
  std::optional<Token> end_of_text() const;
  /// Whose expression splits texts before byte pairs are joined: "GPT-2", "Llama 3" or "Qwen". Empty with
  /// SentencePiece.
  std::string_view split() const;
  /// Whether encode() of a text is that of text[0 .. at-1] and then that of the rest, as TextPart::continued; 0 < at.
  bool may_cut(std::string_view text, std::size_t at) const;

 private:
  friend class Decoder;
  friend class Encoder;
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// Makes a text of tokens, one after the other.
class Decoder {
 public:
  explicit Decoder(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  /// The bytes that a token adds to the text, which may end within a character. Empty: none, or there is no such token.
  std::string_view next(std::int64_t token);

 private:
  Tokenizer tokenizer_;
  bool begins_ = true;
};

/// Makes tokens of texts, and remembers those of words that it has seen, in a bounded memory. Each thread has its own.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer);
  Encoder(Encoder&&) noexcept;
  ~Encoder();
  /// Appends the tokens of a text, of less than 4 GiB. Throws ConfigError for one of more than 64 MiB with
  /// SentencePiece.
  void encode(std::string_view text, std::vector<Token>& tokens, TextPart part = TextPart::whole);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace distdl::tokenizer
