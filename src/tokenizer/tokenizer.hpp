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

/// A tokenizer of byte-level BPE, as GPT-2, Llama 3 and Qwen have: texts become the numbers that Hugging Face's
/// tokenizers 0.23 gives, without the special tokens of its post-processors. Any bytes are a text; those that are not
/// UTF-8 become tokens of single bytes. Copies share what they have. Thread-safe.
class Tokenizer {
 public:
  /// `json`: the content of a tokenizer.json; `name`: what messages call it. Throws ConfigError if it is damaged or of
  /// a kind that is not supported, which the message names.
  static Tokenizer parse(std::string json, const std::string& name);
  /// Reads a tokenizer.json, GPT-2's vocab.json with the merges.txt beside it, or a folder that has one of these.
  /// Throws as parse() does, and StorageError.
  static Tokenizer read(const std::filesystem::path& file);

  /// The content of the tokenizer.json.
  const std::string& json() const;
  /// The largest number of a token, plus one.
  std::int64_t vocabulary() const;
  /// The bytes that a token stands for. Empty: there is no such token.
  std::string_view bytes(std::int64_t token) const;
  std::string decode(const std::vector<Token>& tokens) const;
  /// The number of a token that texts contain as it is, such as "<|endoftext|>".
  std::optional<Token> added_token(std::string_view content) const;
  /// The one of well-known name that ends a text: "<|endoftext|>", "<|end_of_text|>", "</s>" and the like.
  std::optional<Token> end_of_text() const;
  /// Whose expression splits texts before byte pairs are joined: "GPT-2", "Llama 3" or "Qwen".
  std::string_view split() const;
  /// Whether encode() of a text is that of text[0 .. at-1] and then that of the rest.
  bool may_cut(std::string_view text, std::size_t at) const;

 private:
  friend class Encoder;
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

/// Makes tokens of texts, and remembers those of words that it has seen, in a bounded memory. Each thread has its own.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer);
  Encoder(Encoder&&) noexcept;
  ~Encoder();
  /// Appends the tokens of a text, of less than 4 GiB.
  void encode(std::string_view text, std::vector<Token>& tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace distdl::tokenizer
