// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <string>
#include <unordered_map>

#include <distdl/tokenizer/bpe/byte_level.hpp>
#include <distdl/tokenizer/bpe/tokenizer_json.hpp>
#include <distdl/tokenizer/bpe/word_cache.hpp>
#include <distdl/tokenizer/unicode/nfc.hpp>

namespace distdl::tokenizer {
namespace {
/// Byte-level BPE, with what a tokenizer.json says.
class ByteLevel final : public TokenizerKind {
 public:
  ByteLevel(std::string_view json, const std::string& name)
      : parts(read_tokenizer_json(json, name)),
        raw(matched_in(false)),
        normalized(matched_in(true)),
        may_be_cut(std::ranges::none_of(parts.added, [](const AddedToken& token) {
          return token.takes_space_after || token.content.find_first_of(" \n") != std::string::npos;
        })) {
    if (parts.takes_whole_words)
      for (const Token id : parts.words) words.emplace(parts.bytes[id], id);
    for (const AddedToken& token : parts.added) words.erase(token.content);  // never a word
  }

  std::string_view file_name() const override { return "tokenizer.json"; }
  const std::vector<std::string>& bytes() const override { return parts.bytes; }
  std::string_view decoded(Token token, bool& begins) const override {
    begins = false;
    return parts.bytes[token];
  }
  std::optional<Token> added_token(std::string_view content) const override {
    const auto found = std::ranges::find(parts.added, content, &AddedToken::content);
    return found == parts.added.end() ? std::nullopt : std::optional(found->id);
  }
  std::optional<Token> end_of_text() const override {
    for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "<|end▁of▁sentence|>", "</s>", "<eos>"})
      if (const auto token = added_token(name)) return token;
    return std::nullopt;
  }
  std::string_view split() const override {
    return std::ranges::find(known_splits(), parts.split, &KnownSplit::split)->name;
  }
  bool may_cut(std::string_view text, std::size_t at) const override {
    return may_be_cut && is_cut(text, at) && !(parts.begins_with_space && text[at] != ' ');
  }
  std::unique_ptr<KindEncoder> make_encoder() const override;

  /// The added tokens that are searched for before, or after the text is normalized.
  std::vector<AddedToken> matched_in(bool is_normalized) const {
    std::vector<AddedToken> chosen;
    std::string changed;
    for (AddedToken token : parts.added) {
      if (token.is_normalized != is_normalized) continue;
      if (is_normalized && parts.is_normalized) token.content = std::string(to_nfc(token.content, changed));
      chosen.push_back(std::move(token));
    }
    return chosen;
  }

  TokenizerParts parts;
  AddedTokens raw, normalized;
  bool may_be_cut;
  std::unordered_map<std::string_view, Token> words;
};

class ByteLevelEncoder final : public KindEncoder {
 public:
  explicit ByteLevelEncoder(const ByteLevel& tokenizer)
      : tokenizer_(tokenizer), merger_(tokenizer.parts.merge_table, tokenizer.parts.of_byte) {}

  void encode(std::string_view text, TextPart /*part*/, std::vector<Token>& tokens) override {
    for_each_part(tokenizer_.raw, text, tokens, [&](std::string_view part) { append_normalized(part, tokens); });
  }

 private:
  void append_word(std::string_view word, std::vector<Token>& tokens) {
    if (tokenizer_.parts.takes_whole_words) {
      const auto whole = tokenizer_.words.find(word);
      if (whole != tokenizer_.words.end()) return tokens.push_back(whole->second);
    }
    merger_.append(word, tokens);
  }

  void append_words(std::string_view text, std::vector<Token>& tokens) {
    const Splitter split = tokenizer_.parts.split;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
      end = split(text, at);
      const std::string_view word = text.substr(at, end - at);
      if (cache_.append(word, tokens)) continue;
      const std::size_t before = tokens.size();
      append_word(word, tokens);
      cache_.remember(word, std::span(tokens).subspan(before));
    }
  }

  /// A text without added tokens.
  void append_plain(std::string_view text, std::vector<Token>& tokens) {
    if (text.empty()) return;
    if (!tokenizer_.parts.begins_with_space || text.starts_with(' ')) return append_words(text, tokens);
    spaced_.assign(1, ' ').append(text);
    append_words(spaced_, tokens);
  }

  void append_normalized(std::string_view text, std::vector<Token>& tokens) {
    for_each_part(tokenizer_.normalized, tokenizer_.parts.is_normalized ? to_nfc(text, changed_) : text, tokens,
                  [&](std::string_view part) { append_plain(part, tokens); });
  }

  template <class Plain>
  static void for_each_part(const AddedTokens& added, std::string_view text, std::vector<Token>& tokens,
                            Plain&& plain) {
    for (std::size_t at = 0; at < text.size();) {
      const auto found = added.find(text, at);
      if (found.begin > at) plain(text.substr(at, found.begin - at));
      if (found.token) tokens.push_back(found.token->id);
      at = found.end;
    }
  }

  const ByteLevel& tokenizer_;
  WordMerger merger_;
  WordCache cache_;
  std::string changed_, spaced_;
};

std::unique_ptr<KindEncoder> ByteLevel::make_encoder() const {
  return std::make_unique<ByteLevelEncoder>(*this);
}
}  // namespace

std::unique_ptr<TokenizerKind> make_byte_level(std::string_view json, const std::string& name) {
  return std::make_unique<ByteLevel>(json, name);
}

}  // namespace distdl::tokenizer
