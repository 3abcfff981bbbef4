// SPDX-License-Identifier: Apache-2.0
// Any bytes as a tokenizer.json, as a tokenizer.model, as a text for tokenizers, and as records of documents.
#include <bit>
#include <memory>

#include "memory_files.hpp"
#include "target.hpp"
#include <distdl/data/format/text_records.hpp>
#include <distdl/tokenizer/bpe/splitters.hpp>
#include <distdl/tokenizer/tokenizer.hpp>
#include <distdl/tokenizer/utf8.hpp>

namespace {
using namespace distdl;
using tokenizer::Encoder;
using tokenizer::Token;
using tokenizer::Tokenizer;

/// Each byte in the alphabet of GPT-2, and some merges. `split`: the rest of the pre-tokenizer.
std::string small_json(std::string_view pre_tokenizer, std::string_view normalizer) {
  std::string vocabulary, letter;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    vocabulary += fmt::format("{}\"\\u{:04x}\":{}", byte == 0 ? "" : ",", prints ? byte : next++, byte);
  }
  return fmt::format(
      R"({{"added_tokens":[{{"id":261,"content":"<|x|>"}}],"normalizer":{},"pre_tokenizer":{},"model":{{"type":"BPE",)"
      R"("vocab":{{{},"th":256,"the":257,"\u0120the":258,"aa":259,"aaaa":260}},)"
      R"("merges":["t h","th e","\u0120 the","a a","aa aa"]}}}})",
      normalizer, pre_tokenizer, vocabulary);
}

std::vector<Token> encoded(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Token> tokens;
  Encoder(tokenizer).encode(text, tokens);
  return tokens;
}

void read_json(std::string_view input) {
  const auto tokenizer = Tokenizer::parse(std::string(input), "fuzz");
  for (const Token token : encoded(tokenizer, "The <|x|> caf\xc3\xa9 e\xcc\x81, it's 1234!\r\n\n  \xff"))
    fuzz::demand(token < tokenizer.vocabulary(), "tokens are in the vocabulary");
}

void read_model(std::string_view input) {
  const auto tokenizer = Tokenizer::parse(std::string(input), "fuzz");
  auto tokens = encoded(tokenizer, "The <|x|> caf\xc3\xa9 e\xcc\x81, it's 1234!\r\n\n  \xff a aaab\xc2\xa0z");
  for (const Token token : tokens) fuzz::demand(token < tokenizer.vocabulary(), "tokens are in the vocabulary");
  for (std::size_t at = 0; at < std::min<std::size_t>(input.size(), 64); ++at)
    tokens.push_back(static_cast<std::uint8_t>(input[at]) % static_cast<Token>(tokenizer.vocabulary()));
  tokenizer.decode(tokens);
}

/// A model of SentencePiece like Llama's: each byte, and some merges, of which later ones have lower scores.
std::string small_model(const std::string& normalization) {
  const auto with_value = [](int number, const std::string& value) {  // a field of less than 128 bytes
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(value.size())} + value;
  };
  std::string model;
  const auto add = [&](const std::string& text, int kind) {
    const auto score = std::bit_cast<std::uint32_t>(-static_cast<float>(model.size()));
    std::string piece = with_value(1, text) + '\x15';
    for (int shift = 0; shift < 32; shift += 8) piece += static_cast<char>(score >> shift);
    model += with_value(1, piece + '\x18' + static_cast<char>(kind));
  };
  add("<unk>", 2), add("</s>", 3), add("<|x|>", 4);
  for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 6);
  for (const char* text :
       {"\u2581", "t", "h", "e", "a", "th", "the", "\u2581t", "\u2581the", "\u2581\u2581", "aa", "aaaa", "\u00e9"})
    add(text, 1);
  return model + with_value(2, std::string("\x18\x02\x98\x02\x01", 5)) + with_value(3, normalization);  // BPE, bytes
}

void encode_pieces(std::string_view input) {
  static const std::vector<Tokenizer> all{Tokenizer::parse(small_model(std::string("\x20\x00", 2)), "llama"),
                                          Tokenizer::parse(small_model(std::string("\x18\x00\x20\x00", 4)), "no space"),
                                          Tokenizer::parse(small_model(""), "spaces removed")};
  for (const Tokenizer& tokenizer : all) {
    std::vector<Token> pieces;
    Encoder encoder(tokenizer);
    std::size_t begin = 0;
    for (std::size_t at = 1; at <= input.size(); ++at) {
      if (at < input.size() && !tokenizer.may_cut(input, at)) continue;
      encoder.encode(input.substr(begin, at - begin), pieces,
                     begin == 0 ? tokenizer::TextPart::whole : tokenizer::TextPart::continued);
      begin = at;
    }
    fuzz::demand(pieces == encoded(tokenizer, input), "pieces have the tokens of the whole");
    const std::string text = tokenizer.decode(pieces);
    const bool keeps_spaces = &tokenizer != &all.back();  // of U+2581 in a text several stay, as spaces not
    fuzz::demand(!keeps_spaces || tokenizer.decode(encoded(tokenizer, text)) == text, "a text that was decoded stays");
  }
}

void encode(std::string_view input) {
  static const auto all = [] {
    std::vector<Tokenizer> made{
        Tokenizer::parse(small_json(R"({"type":"ByteLevel","add_prefix_space":false})", "null"), "gpt2")};
    for (const auto& known : tokenizer::known_splits()) {
      std::string expression;
      for (const char c : known.expression) expression += c == '\\' ? "\\\\" : std::string(1, c);
      const std::string split =
          R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")" + expression +
          R"("},"behavior":"Isolated"},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})";
      for (const char* normalizer : {"null", R"({"type":"NFC"})"})
        made.push_back(Tokenizer::parse(small_json(split, normalizer), "split"));
    }
    return made;
  }();
  for (const Tokenizer& tokenizer : all) {
    const auto tokens = encoded(tokenizer, input);
    const std::string text = tokenizer.decode(tokens);
    const bool is_normalized = tokenizer.content().find("NFC") != std::string::npos;
    fuzz::demand(is_normalized || text == input, "the text comes back");
    fuzz::demand(tokenizer.decode(encoded(tokenizer, text)) == text, "a normalized text stays");
    std::vector<Token> pieces;
    Encoder encoder(tokenizer);
    std::size_t begin = 0;
    for (std::size_t at = 1; at <= input.size(); ++at) {
      if (at < input.size() && !tokenizer.may_cut(input, at)) continue;
      encoder.encode(input.substr(begin, at - begin), pieces);
      begin = at;
    }
    fuzz::demand(pieces == tokens, "pieces have the tokens of the whole");
  }
  fuzz::demand(tokenizer::incomplete_end(input) <= std::min<std::size_t>(3, input.size()), "a character has 4 bytes");
  tokenizer::with_replacements(input);
}

/// Input: a byte with the format, the file.
void read_records(std::string_view input) {
  if (input.empty()) return;
  static fuzz::MemoryFile file;
  file.put(input.substr(1));
  constexpr std::array kFormats{data::TextFormat::jsonl, data::TextFormat::csv, data::TextFormat::tsv,
                                data::TextFormat::text};
  data::TextRecordReader reader(file.path(), kFormats[static_cast<std::uint8_t>(input[0]) % kFormats.size()], "text",
                                [](std::string_view text) { return text.size() - 1; });
  while (const auto records = reader.next())
    for (std::size_t i = 0; i < records->ends.size(); ++i) data::text_of_record(*records, i, "text");
}

const fuzz::Target json("tokenizer", &read_json), text("encode", &encode), model("sentencepiece", &read_model),
    pieces("encode_pieces", &encode_pieces), records("text_records", &read_records);
}  // namespace
