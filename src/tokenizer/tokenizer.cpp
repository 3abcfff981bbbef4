// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <limits>

#include <distdl/base/errors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/tokenizer/bpe/byte_level.hpp>
#include <distdl/tokenizer/bpe/tokenizer_json.hpp>
#include <distdl/tokenizer/sentencepiece/sentencepiece.hpp>
#include <distdl/tokenizer/tokenizer.hpp>

namespace distdl::tokenizer {
namespace {
/// A protobuf whose first field is number 1, a message. JSON may begin with an empty line, too.
bool is_sentencepiece(std::string_view content) {
  if (!content.starts_with('\n')) return false;
  const auto first = content.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && content[first] != '{';
}

/// Lines such as "IQ== 0".
bool is_tiktoken(std::string_view content) {
  const std::string_view line = content.substr(0, content.find('\n'));
  const auto space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space % 4 != 0 || space + 1 == line.size()) return false;
  return std::ranges::all_of(
             line.substr(0, space),
             [](unsigned char c) { return std::isalnum(c) != 0 || c == '+' || c == '/' || c == '='; }) &&
         std::ranges::all_of(line.substr(space + 1), [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::unique_ptr<TokenizerKind> kind_of(std::string_view content, const std::string& name) {
  require(content.size() <= kLargestTokenizer, "\"{}\" has {} bytes, but a tokenizer has at most {}", name,
          content.size(), kLargestTokenizer);
  require(!is_tiktoken(content),
          "\"{}\" is a vocabulary of tiktoken, which is not supported; take the tokenizer.json of the same model",
          name);
  return is_sentencepiece(content) ? make_sentencepiece(content, name) : make_byte_level(content, name);
}
}  // namespace

struct Tokenizer::Impl {
  Impl(std::string text, const std::string& name) : content(std::move(text)), kind(kind_of(content, name)) {}

  std::string content;
  std::unique_ptr<TokenizerKind> kind;
};

Tokenizer Tokenizer::parse(std::string content, const std::string& name) {
  return Tokenizer(std::make_shared<const Impl>(std::move(content), name));
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
    const auto found = file_in(file);
    require(found.has_value(), "\"{}\" has neither a tokenizer.model nor a tokenizer.json nor a vocab.json",
            file.string());
    chosen = *found;
  }
  if (chosen.filename() != "vocab.json") return parse(content(chosen), chosen.string());
  const fs::path merge_file = chosen.parent_path() / "merges.txt";
  require(fs::exists(merge_file), "\"{}\" needs the file merges.txt beside it", chosen.string());
  return parse(json_of_gpt2(content(chosen), content(merge_file), chosen.string()), chosen.string());
}

std::optional<std::filesystem::path> Tokenizer::file_in(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.model", "tokenizer.json", "vocab.json"})
    if (std::filesystem::exists(folder / name)) return folder / name;
  return std::nullopt;
}

const std::string& Tokenizer::content() const {
  return impl_->content;
}

std::string_view Tokenizer::file_name() const {
  return impl_->kind->file_name();
}

std::int64_t Tokenizer::vocabulary() const {
  return static_cast<std::int64_t>(impl_->kind->bytes().size());
}

std::string_view Tokenizer::bytes(std::int64_t token) const {
  return token >= 0 && token < vocabulary() ? std::string_view(impl_->kind->bytes()[static_cast<std::size_t>(token)])
                                            : std::string_view();
}

std::string Tokenizer::decode(const std::vector<Token>& tokens) const {
  std::string text;
  Decoder decoder(*this);
  for (const Token token : tokens) text += decoder.next(token);
  return text;
}

std::optional<Token> Tokenizer::added_token(std::string_view content) const {
  return impl_->kind->added_token(content);
}

std::optional<Token> Tokenizer::end_of_text() const {
  return impl_->kind->end_of_text();
}

std::string_view Tokenizer::split() const {
  return impl_->kind->split();
}

bool Tokenizer::may_cut(std::string_view text, std::size_t at) const {
  return impl_->kind->may_cut(text, at);
}

std::string_view Decoder::next(std::int64_t token) {
  if (token < 0 || token >= tokenizer_.vocabulary()) return {};
  return tokenizer_.impl_->kind->decoded(static_cast<Token>(token), begins_);
}

struct Encoder::State {
  explicit State(std::shared_ptr<const Tokenizer::Impl> impl)
      : tokenizer(std::move(impl)), encoder(tokenizer->kind->make_encoder()) {}

  std::shared_ptr<const Tokenizer::Impl> tokenizer;
  std::unique_ptr<KindEncoder> encoder;
};

Encoder::Encoder(const Tokenizer& tokenizer) : state_(std::make_unique<State>(tokenizer.impl_)) {}
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder::~Encoder() = default;

void Encoder::encode(std::string_view text, std::vector<Token>& tokens, TextPart part) {
  require(text.size() < std::numeric_limits<std::uint32_t>::max(), "a text of {} bytes is too long at once",
          text.size());
  state_->encoder->encode(text, part, tokens);
}

}  // namespace distdl::tokenizer
