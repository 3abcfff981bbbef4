// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/tokenizer/bpe/byte_pairs.hpp>

namespace distdl::tokenizer {

/// A token that a text contains as it is, such as <|endoftext|>.
struct AddedToken {
  std::string content;
  Token id = 0;
  bool takes_space_before = false, takes_space_after = false;  ///< white space beside it belongs to it
  bool is_normalized = false;                                  ///< it is searched for in the normalized text
};

/// Searches texts for tokens: the first one from the left, and the longest of those that begin there.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Found {
    const AddedToken* token;  ///< null: there is none
    std::size_t begin, end;   ///< with the white space that belongs to it
  };
  /// The next one at or behind text[at].
  Found find(std::string_view text, std::size_t at) const;

 private:
  const AddedToken* longest_at(std::string_view text, std::size_t at) const;
  std::vector<AddedToken> tokens_;  // by content
  std::vector<bool> begins_;        // for each byte: a token begins with it
};

}  // namespace distdl::tokenizer
