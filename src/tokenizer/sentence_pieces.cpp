// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <distdl/base/errors.hpp>
#include <distdl/tokenizer/sentence_pieces.hpp>
#include <distdl/tokenizer/unicode/characters.hpp>

namespace distdl::tokenizer {
namespace {
constexpr std::size_t kLongestPiece = 1024;     ///< bytes
constexpr std::size_t kMostPieces = 1 << 24;    ///< the library counts in int
constexpr std::size_t kMostNestedSymbols = 64;  ///< the library has room for so many that begin at one place

/// The fields of a message of protobuf, one after the other.
class MessageFields {
 public:
  MessageFields(std::string_view message, const std::string& name) : rest_(message), name_(name) {}

  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    number = tag >> 3;
    wire_ = tag & 7;
    if (wire_ == 0) return value_ = varint(), true;
    if (wire_ == 2) return bytes_ = taken(varint()), true;
    check(wire_ == 1 || wire_ == 5);
    bytes_ = taken(wire_ == 1 ? 8 : 4);
    return true;
  }

  std::uint64_t integer() const {
    check(wire_ == 0);
    return value_;
  }
  bool boolean() const { return integer() != 0; }
  std::string_view text() const {
    check(wire_ == 2);
    return bytes_;
  }
  float real() const {
    check(wire_ == 5);
    std::uint32_t bits = 0;
    for (int i = 3; i >= 0; --i) bits = bits << 8 | static_cast<std::uint8_t>(bytes_[static_cast<std::size_t>(i)]);
    return std::bit_cast<float>(bits);
  }
  MessageFields message() const { return {text(), name_}; }

  std::uint64_t number = 0;

 private:
  void check(bool is_sound) const {
    require(is_sound,
            "\"{}\" is no SentencePiece model, or is damaged: its protobuf cannot be read; get the file again", name_);
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      check(!rest_.empty() && shift < 64);
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view taken(std::uint64_t count) {
    check(count <= rest_.size());
    const auto part = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return part;
  }

  std::string_view rest_, bytes_;
  const std::string& name_;
  std::uint64_t value_ = 0, wire_ = 0;
};

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Character found = character_at(text, at);
    if (found.code == kInvalid) return false;
    at += found.bytes;
  }
  return true;
}

/// Numbers of fields: sentencepiece_model.proto. A message that comes several times is merged, as protobuf has it.
class ModelReader {
 public:
  ModelReader(std::string_view content, const std::string& name) : content_(content), name_(name) {}

  SentencePieceModel read() {
    for (MessageFields fields(content_, name_); fields.next();) {
      if (fields.number == 1) read_piece(fields.message());
      if (fields.number == 2) read_training(fields.message());
      if (fields.number == 3) read_normalization(fields.message());
      if (fields.number == 5) read_denormalization(fields.message());
    }
    require(!made_.pieces.empty(), "\"{}\" is no SentencePiece model: it has no pieces", name_);
    check_nested_symbols();
    made_.beginning = control(beginning_);
    made_.end = control(end_);
    return std::move(made_);
  }

 private:
  void read_piece(MessageFields fields) {
    SentencePiece piece;
    while (fields.next()) {
      if (fields.number == 1) piece.text = fields.text();
      if (fields.number == 2) piece.score = fields.real();
      if (fields.number == 3) piece.kind = enumeration<PieceKind>(fields, 6, "type of a piece");
    }
    const std::size_t id = made_.pieces.size();
    require(id < kMostPieces, "\"{}\" has more than {} pieces", name_, kMostPieces);
    require(!piece.text.empty() && piece.text.size() <= kLongestPiece && is_utf8(piece.text) &&
                piece.text.find('\0') == std::string::npos && std::isfinite(piece.score),
            "\"{}\" is damaged: its piece {} is not a text of 1 to {} bytes with a score; get the file again", name_,
            id, kLongestPiece);
    made_.pieces.push_back(std::move(piece));
  }

  void read_training(MessageFields fields) {
    while (fields.next()) {
      if (fields.number == 3) made_.algorithm = enumeration<PieceAlgorithm>(fields, 4, "type of model");
      if (fields.number == 24) made_.space_is_suffix = fields.boolean();
      if (fields.number == 35) made_.byte_fallback = fields.boolean();
      if (fields.number == 44) made_.unknown = fields.text();
      if (fields.number == 46) beginning_ = fields.text();
      if (fields.number == 47) end_ = fields.text();
    }
  }

  void read_normalization(MessageFields fields) {
    while (fields.next()) {
      if (fields.number == 2) made_.rules = fields.text();
      if (fields.number == 3) made_.adds_space = fields.boolean();
      if (fields.number == 4) made_.removes_spaces = fields.boolean();
      if (fields.number == 5) made_.escapes_spaces = fields.boolean();
    }
  }

  void read_denormalization(MessageFields fields) const {
    while (fields.next())
      require(fields.number != 2 || fields.text().empty(),
              "\"{}\" changes decoded texts by rules (denormalizer_spec), which is not supported", name_);
  }

  template <class Enum>
  Enum enumeration(const MessageFields& fields, std::uint64_t last, const char* what) const {
    const std::uint64_t value = fields.integer();
    require(value >= 1 && value <= last, "\"{}\" has the {} {}, but only 1 to {} are known", name_, what, value, last);
    return static_cast<Enum>(value);
  }

  /// User-defined symbols of which each is the beginning of the next.
  void check_nested_symbols() const {
    std::vector<std::string_view> symbols, around;
    for (const auto& piece : made_.pieces)
      if (piece.kind == PieceKind::user_defined) symbols.push_back(piece.text);
    std::ranges::sort(symbols);
    for (const auto symbol : symbols) {
      while (!around.empty() && !symbol.starts_with(around.back())) around.pop_back();
      around.push_back(symbol);
      require(around.size() <= kMostNestedSymbols, "\"{}\" has more than {} user-defined symbols that begin alike",
              name_, kMostNestedSymbols);
    }
  }

  std::optional<Token> control(std::string_view text) const {
    for (std::size_t id = 0; id < made_.pieces.size(); ++id)
      if (made_.pieces[id].kind == PieceKind::control && made_.pieces[id].text == text) return static_cast<Token>(id);
    return std::nullopt;
  }

  std::string_view content_;
  const std::string& name_;
  SentencePieceModel made_;
  std::string beginning_ = "<s>", end_ = "</s>";
};
}  // namespace

SentencePieceModel read_sentence_pieces(std::string_view content, const std::string& name) {
  return ModelReader(content, name).read();
}

}  // namespace distdl::tokenizer
