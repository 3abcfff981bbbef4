// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include <distdl/tokenizer/bpe/added_tokens.hpp>
#include <distdl/tokenizer/unicode/characters.hpp>

namespace distdl::tokenizer {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), begins_(256, false) {
  std::ranges::sort(tokens_, {}, &AddedToken::content);
  for (const AddedToken& token : tokens_) begins_[static_cast<std::uint8_t>(token.content[0])] = true;
}

const AddedToken* AddedTokens::longest_at(std::string_view text, std::size_t at) const {
  const AddedToken* longest = nullptr;
  auto first = tokens_.begin(), last = tokens_.end();  // those that begin with text[at .. at + length]
  for (std::size_t length = 0; at + length < text.size() && first != last; ++length) {
    const auto byte_of = [&](const AddedToken& token) {
      return length < token.content.size() ? static_cast<std::uint8_t>(token.content[length]) : -1;
    };
    const auto wanted = static_cast<std::uint8_t>(text[at + length]);
    last = std::ranges::upper_bound(first, last, wanted, {}, byte_of);
    first = std::ranges::lower_bound(first, last, wanted, {}, byte_of);
    if (first != last && first->content.size() == length + 1) longest = &*first;
  }
  return longest;
}

AddedTokens::Found AddedTokens::find(std::string_view text, std::size_t at) const {
  if (tokens_.empty()) return {nullptr, text.size(), text.size()};
  const auto is_space = [](const Character& found) { return class_of(found.code) == CharacterClass::space; };
  for (std::size_t begin = at; begin < text.size(); ++begin) {
    if (!begins_[static_cast<std::uint8_t>(text[begin])]) continue;
    const AddedToken* const token = longest_at(text, begin);
    if (!token) continue;
    std::size_t end = begin + token->content.size();
    Character beside;
    if (token->takes_space_before)
      while (begin > at && is_space(beside = character_before(text, begin)))
        begin -= std::min(beside.bytes, begin - at);
    if (token->takes_space_after)
      while (end < text.size() && is_space(beside = character_at(text, end))) end += beside.bytes;
    return {token, begin, end};
  }
  return {nullptr, text.size(), text.size()};
}

}  // namespace distdl::tokenizer
