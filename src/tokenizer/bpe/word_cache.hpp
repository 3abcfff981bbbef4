// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <distdl/tokenizer/bpe/byte_pairs.hpp>

namespace distdl::tokenizer {

/// The tokens of words that were seen before. It begins anew when it is full, so its memory is bounded: 16 MiB.
class WordCache {
 public:
  WordCache();
  /// Appends the tokens of a word. False: it is not known.
  bool append(std::string_view word, std::vector<Token>& tokens);
  void remember(std::string_view word, std::span<const Token> tokens);

 private:
  struct Entry {
    std::uint64_t hash = 0;  ///< 0: it is empty
    std::uint32_t at = 0;    ///< its bytes in `text_`
    std::uint32_t tokens_at = 0;
    std::uint16_t bytes = 0, tokens = 0;
    Token first = 0;
  };
  Entry& place_of(std::string_view word, std::uint64_t hash);
  void make_room();
  void clear();

  std::vector<Entry> entries_;
  std::size_t used_ = 0;
  std::vector<char> text_;
  std::vector<Token> tokens_;
};

}  // namespace distdl::tokenizer
