// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/tokenizer/tokenizer.hpp>

namespace distdl::tokenizer {

/// Google's library with a model, which only ModelReader and check_normalization_rules() have checked: the library ends
/// the program on some damage. Thread-safe.
class SentencePieceLibrary {
 public:
  /// `content`: of the tokenizer.model. Throws ConfigError that begins with `name`, also if distdl was built without
  /// it.
  SentencePieceLibrary(std::string_view content, const std::string& name);
  SentencePieceLibrary(SentencePieceLibrary&&) noexcept;
  ~SentencePieceLibrary();
  /// Appends the tokens of a text. Throws ConfigError.
  void encode(std::string_view text, std::vector<Token>& tokens) const;

 private:
  struct Processor;
  std::unique_ptr<Processor> processor_;
};

}  // namespace distdl::tokenizer
