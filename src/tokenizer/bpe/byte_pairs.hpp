// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace distdl::tokenizer {

using Token = std::uint32_t;

/// Which pairs of tokens become one, and in which order: a hash table with open addresses.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank;  ///< pairs of lower rank are merged first
    Token result;
  };
  explicit MergeTable(std::size_t count);
  /// Replaces the merge of these two, if there is one.
  void put(Token left, Token right, Merge merge);
  /// Null if the two stay apart.
  const Merge* find(Token left, Token right) const noexcept;

 private:
  struct Entry {
    std::uint64_t pair;
    Merge merge;
  };
  std::size_t place_of(std::uint64_t pair) const noexcept;
  std::vector<Entry> entries_;  // their number is a power of two, and less than half of them are used
};

/// MergeTable the tokens of a word: always the pair of the lowest rank, and of equal ones the first. Not thread-safe.
class WordMerger {
 public:
  /// `bytes`: the token of each byte. References must outlive this object.
  WordMerger(const MergeTable& table, const std::array<Token, 256>& bytes) : table_(table), bytes_(bytes) {}
  /// Appends the tokens of a word.
  void append(std::string_view word, std::vector<Token>& tokens);

 private:
  struct Symbol {
    Token token;
    std::uint32_t previous, next;  ///< places, or kNowhere
    bool is_gone;                  ///< it has become part of the one before
  };
  struct Candidate {
    std::uint32_t rank, place;
    Token result;
  };
  void append_short(std::string_view word, std::vector<Token>& tokens);
  void append_long(std::string_view word, std::vector<Token>& tokens);
  void propose(std::uint32_t left);

  const MergeTable& table_;
  const std::array<Token, 256>& bytes_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace distdl::tokenizer
