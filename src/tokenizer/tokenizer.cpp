// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>

#include <distdl/base/errors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/tokenizer/bpe/tokenizer_json.hpp>
#include <distdl/tokenizer/bpe/word_cache.hpp>
#include <distdl/tokenizer/tokenizer.hpp>
#include <distdl/tokenizer/unicode/nfc.hpp>

namespace distdl::tokenizer {

struct Tokenizer::Impl {
  Impl(std::string text, const std::string& name)
      : json(std::move(text)),
        parts(read_tokenizer_json(json, name)),
        raw(matched_in(false)),
        normalized(matched_in(true)),
        may_be_cut(std::ranges::none_of(parts.added, [](const AddedToken& token) {
          return token.takes_space_after || token.content.find_first_of(" \n") != std::string::npos;
        })) {
    if (parts.takes_whole_words)
      for (const Token id : parts.words) words.emplace(parts.bytes[id], id);
    for (const AddedToken& token : parts.added) words.erase(token.content);  // never a word
  }

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

  std::string json;
  TokenizerParts parts;
  AddedTokens raw, normalized;
  bool may_be_cut;
  std::unordered_map<std::string_view, Token> words;
};

Tokenizer Tokenizer::parse(std::string json, const std::string& name) {
  return Tokenizer(std::make_shared<const Impl>(std::move(json), name));
}

Tokenizer Tokenizer::read(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  const auto content = [](const fs::path& path) {
    std::error_code unknown;
    const auto followed = fs::canonical(path, unknown);  // a folder of Hugging Face's cache has links
    return read_regular(unknown ? path : followed, kLargestTokenizer);
  };
  fs::path chosen = file;
  if (fs::is_directory(file)) {
    chosen = file / "tokenizer.json";
    if (!fs::exists(chosen)) chosen = file / "vocab.json";
    require(fs::exists(chosen), "\"{}\" has neither a tokenizer.json nor a vocab.json", file.string());
  }
  if (chosen.filename() != "vocab.json") return parse(content(chosen), chosen.string());
  const fs::path merge_file = chosen.parent_path() / "merges.txt";
  require(fs::exists(merge_file), "\"{}\" needs the file merges.txt beside it", chosen.string());
  return parse(json_of_gpt2(content(chosen), content(merge_file), chosen.string()), chosen.string());
}

const std::string& Tokenizer::json() const {
  return impl_->json;
}

std::int64_t Tokenizer::vocabulary() const {
  return static_cast<std::int64_t>(impl_->parts.bytes.size());
}

std::string_view Tokenizer::bytes(std::int64_t token) const {
  return token >= 0 && token < vocabulary() ? std::string_view(impl_->parts.bytes[static_cast<std::size_t>(token)])
                                            : std::string_view();
}

std::string Tokenizer::decode(const std::vector<Token>& tokens) const {
  std::string text;
  for (const Token token : tokens) text += bytes(token);
  return text;
}

std::optional<Token> Tokenizer::added_token(std::string_view content) const {
  const auto& added = impl_->parts.added;
  const auto found = std::ranges::find(added, content, &AddedToken::content);
  return found == added.end() ? std::nullopt : std::optional(found->id);
}

std::optional<Token> Tokenizer::end_of_text() const {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "<|end▁of▁sentence|>", "</s>", "<eos>"})
    if (const auto token = added_token(name)) return token;
  return std::nullopt;
}

std::string_view Tokenizer::split() const {
  return std::ranges::find(known_splits(), impl_->parts.split, &KnownSplit::split)->name;
}

bool Tokenizer::may_cut(std::string_view text, std::size_t at) const {
  return impl_->may_be_cut && is_cut(text, at) && !(impl_->parts.begins_with_space && text[at] != ' ');
}

struct Encoder::State {
  explicit State(std::shared_ptr<const Tokenizer::Impl> impl)
      : tokenizer(std::move(impl)), merger(tokenizer->parts.merge_table, tokenizer->parts.of_byte) {}

  void append_word(std::string_view word, std::vector<Token>& tokens) {
    if (tokenizer->parts.takes_whole_words) {
      const auto whole = tokenizer->words.find(word);
      if (whole != tokenizer->words.end()) return tokens.push_back(whole->second);
    }
    merger.append(word, tokens);
  }

  void append_words(std::string_view text, std::vector<Token>& tokens) {
    const Splitter split = tokenizer->parts.split;
    for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
      end = split(text, at);
      const std::string_view word = text.substr(at, end - at);
      if (cache.append(word, tokens)) continue;
      const std::size_t before = tokens.size();
      append_word(word, tokens);
      cache.remember(word, std::span(tokens).subspan(before));
    }
  }

  /// A text without added tokens.
  void append_plain(std::string_view text, std::vector<Token>& tokens) {
    if (text.empty()) return;
    if (!tokenizer->parts.begins_with_space || text.starts_with(' ')) return append_words(text, tokens);
    spaced.assign(1, ' ').append(text);
    append_words(spaced, tokens);
  }

  void append_normalized(std::string_view text, std::vector<Token>& tokens) {
    for_each_part(tokenizer->normalized, tokenizer->parts.is_normalized ? to_nfc(text, changed) : text, tokens,
                  [&](std::string_view part) { append_plain(part, tokens); });
  }

  void append(std::string_view text, std::vector<Token>& tokens) {
    for_each_part(tokenizer->raw, text, tokens, [&](std::string_view part) { append_normalized(part, tokens); });
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

  std::shared_ptr<const Tokenizer::Impl> tokenizer;
  WordMerger merger;
  WordCache cache;
  std::string changed, spaced;
};

Encoder::Encoder(const Tokenizer& tokenizer) : state_(std::make_unique<State>(tokenizer.impl_)) {}
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder::~Encoder() = default;

void Encoder::encode(std::string_view text, std::vector<Token>& tokens) {
  require(text.size() < std::numeric_limits<std::uint32_t>::max(), "a text of {} bytes is too long at once",
          text.size());
  state_->append(text, tokens);
}

}  // namespace distdl::tokenizer
