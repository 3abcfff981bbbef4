// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include <distdl/base/errors.hpp>
#include <distdl/tokenizer/sentence_pieces.hpp>
#include <distdl/tokenizer/sentencepiece/library.hpp>
#include <distdl/tokenizer/sentencepiece/normalization_rules.hpp>
#include <distdl/tokenizer/sentencepiece/sentencepiece.hpp>

namespace distdl::tokenizer {
namespace {
constexpr std::string_view kSpace = "\xe2\x96\x81";
constexpr std::size_t kLongestText = 64 << 20;  ///< bytes; the library takes 30 times as many

std::string with_spaces(std::string_view piece) {
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t space = std::min(piece.find(kSpace, at), piece.size());
    text.append(piece, at, space - at);
    if (space < piece.size()) text += ' ';
    at = space + kSpace.size();
  }
  return text;
}

/// "<0x41>"
std::string byte_of(std::string_view piece, const std::string& name) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  const bool is_byte = piece.size() == 6 && piece.starts_with("<0x") && piece.ends_with('>') && digit(piece[3]) >= 0 &&
                       digit(piece[4]) >= 0;
  require(is_byte, "\"{}\" is damaged: \"{}\" is the piece of a byte, but one such as <0x41> is expected", name, piece);
  return std::string(1, static_cast<char>(digit(piece[3]) * 16 + digit(piece[4])));
}

std::vector<std::string> bytes_in(const SentencePieceModel& model, const std::string& name) {
  std::vector<std::string> bytes;
  bytes.reserve(model.pieces.size());
  for (const auto& piece : model.pieces)
    bytes.push_back(piece.kind == PieceKind::byte      ? byte_of(piece.text, name)
                    : piece.kind == PieceKind::unknown ? model.unknown
                    : piece.kind == PieceKind::control ? piece.text
                                                       : with_spaces(piece.text));
  return bytes;
}

/// Whether a piece has `symbol` behind another character, or, if `alone`, beside one.
bool has_inside(std::string_view piece, std::string_view symbol, bool alone) {
  std::size_t at = 0;
  while (piece.substr(at).starts_with(symbol)) at += symbol.size();
  return (alone && at > 0 && at < piece.size()) || piece.find(symbol, at) != std::string_view::npos;
}

class SentencePieceKind final : public TokenizerKind {
 public:
  SentencePieceKind(std::string_view content, const std::string& name)
      : model_(read_sentence_pieces(content, name)), bytes_(bytes_in(model_, name)) {
    const bool spaces_stay = check_normalization_rules(model_.rules, name);
    whole_.emplace(content, name);
    // A message that comes again is merged with the first: field 3 (normalizer_spec), in it field 3 (add_dummy_prefix).
    if (model_.adds_space && !model_.removes_spaces)
      continued_.emplace(std::string(content) + std::string("\x1a\x02\x18\x00", 4), name);
    find_cuts(spaces_stay);
  }

  std::string_view file_name() const override { return "tokenizer.model"; }
  const std::vector<std::string>& bytes() const override { return bytes_; }

  std::string_view decoded(Token token, bool& begins) const override {
    const auto& piece = model_.pieces[token];
    std::string_view text = bytes_[token];
    if (piece.kind == PieceKind::control) return text;
    const bool may_lack_space = piece.kind != PieceKind::byte && piece.kind != PieceKind::unknown &&
                                (model_.adds_space || model_.removes_spaces);
    if (begins && may_lack_space && piece.text.starts_with(kSpace)) {
      text.remove_prefix(1);
      begins = model_.removes_spaces;
    }
    begins = begins && text.empty();
    return text;
  }

  std::optional<Token> added_token(std::string_view content) const override {
    for (std::size_t id = 0; id < model_.pieces.size(); ++id)
      if (const auto kind = model_.pieces[id].kind;
          (kind == PieceKind::control || kind == PieceKind::user_defined) && model_.pieces[id].text == content)
        return static_cast<Token>(id);
    return std::nullopt;
  }
  std::optional<Token> end_of_text() const override { return model_.end; }
  std::string_view split() const override { return {}; }

  bool may_cut(std::string_view text, std::size_t at) const override {
    if (text[at] == '\n') return cuts_at_lines_ && text[at - 1] != '\n';
    if (text[at] != ' ' || !cuts_at_spaces_) return false;
    if (!model_.rules.empty()) return std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0;
    return text[at - 1] != ' ' && !text.substr(0, at).ends_with(kSpace);
  }

  std::unique_ptr<KindEncoder> make_encoder() const override;

  void encode(std::string_view text, TextPart part, std::vector<Token>& tokens) const {
    require(
        text.size() <= kLongestText,
        "a text of {} bytes is too long at once for SentencePiece, which takes {}; divide it into several documents, "
        "for instance lines of JSONL",
        text.size(), kLongestText);
    (part == TextPart::continued && continued_ ? *continued_ : *whole_).encode(text, tokens);
  }

 private:
  /// Unigram models choose the best division of a whole text; in those of BPE no merge goes beyond a place where no
  /// piece does. A text that goes on has its space from the text, or gets it again where spaces at the beginning are
  /// removed.
  void find_cuts(bool spaces_stay) {
    const bool is_divisible =
        model_.algorithm == PieceAlgorithm::bpe && !model_.space_is_suffix && model_.escapes_spaces;
    cuts_at_spaces_ = is_divisible && spaces_stay && (model_.adds_space || !model_.removes_spaces);
    cuts_at_lines_ = is_divisible && model_.rules.empty() && !model_.removes_spaces && model_.byte_fallback;
    bool has_space = false;
    for (const auto& piece : model_.pieces) {
      if (piece.kind == PieceKind::user_defined && piece.text.find(' ') != std::string::npos) cuts_at_spaces_ = false;
      if (piece.kind == PieceKind::control || piece.kind == PieceKind::byte || piece.kind == PieceKind::unknown)
        continue;
      has_space = has_space || piece.text == kSpace;
      if (has_inside(piece.text, kSpace, false)) cuts_at_spaces_ = false;
      if (has_inside(piece.text, "\n", true)) cuts_at_lines_ = false;
    }
    cuts_at_spaces_ = cuts_at_spaces_ && (has_space || model_.byte_fallback);
  }

  SentencePieceModel model_;
  std::vector<std::string> bytes_;
  std::optional<SentencePieceLibrary> whole_, continued_;
  bool cuts_at_spaces_ = false, cuts_at_lines_ = false;
};

class SentencePieceEncoder final : public KindEncoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceKind& kind) : kind_(kind) {}
  void encode(std::string_view text, TextPart part, std::vector<Token>& tokens) override {
    kind_.encode(text, part, tokens);
  }

 private:
  const SentencePieceKind& kind_;
};

std::unique_ptr<KindEncoder> SentencePieceKind::make_encoder() const {
  return std::make_unique<SentencePieceEncoder>(*this);
}
}  // namespace

std::unique_ptr<TokenizerKind> make_sentencepiece(std::string_view content, const std::string& name) {
  return std::make_unique<SentencePieceKind>(content, name);
}

}  // namespace distdl::tokenizer
