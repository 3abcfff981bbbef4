// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>
#include <fstream>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/tokenizer/sentence_pieces.hpp>
#include <distdl/tokenizer/tokenizer.hpp>
#include <distdl/tokenizer/utf8.hpp>

namespace distdl::tokenizer {
namespace {
using testing::HasSubstr;
using SentencePieceJson = nlohmann::json;

const std::filesystem::path kModels = DISTDL_SOURCE_DIR "/tests/tokenizer/tiny";

std::string content_of(const std::string& kind) {
  return read_regular(kModels / (kind + ".model"), 1 << 20);
}
std::vector<Token> numbers_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Token> tokens;
  Encoder(tokenizer).encode(text, tokens);
  return tokens;
}
std::string refused(std::string content) {
  try {
    Tokenizer::parse(std::move(content), "the model");
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}
/// A field of protobuf whose value has a length.
std::string field(int number, const std::string& value) {
  std::string bytes(1, static_cast<char>(number << 3 | 2));
  std::size_t length = value.size();
  for (; length >= 0x80; length >>= 7) bytes += static_cast<char>(0x80 | (length & 0x7f));
  return bytes + static_cast<char>(length) + value;
}
std::string piece(const std::string& text, float score = 0, int kind = 1) {
  std::string bits(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) bits[i] = static_cast<char>(std::bit_cast<std::uint32_t>(score) >> 8 * i);
  return field(1, field(1, text) + "\x15" + bits + "\x18" + static_cast<char>(kind));
}
std::string normalization(const std::string& rules) {
  return field(3, field(2, rules));
}
/// Rules of a trie of `units`, and their results.
std::string rules_of(const std::vector<std::uint32_t>& units, const std::string& results) {
  std::string bytes;
  const auto add = [&](std::size_t value) {
    for (std::size_t i = 0; i < 4; ++i) bytes += static_cast<char>(value >> 8 * i);
  };
  add(units.size() * 4);
  for (const auto unit : units) add(unit);
  return bytes + results;
}
const std::string kSmall = piece("<unk>", 0, 2) + piece("</s>", 0, 3) + piece("a") + piece("b");

class SentencePieceTokenizer : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = refused(content_of("llama"));
    if (!why.empty()) {
      EXPECT_THAT(why, HasSubstr("DISTDL_SENTENCEPIECE=ON"));
      GTEST_SKIP() << why;
    }
  }
};

/// make_tiny.py has the numbers from Google's own package.
TEST_F(SentencePieceTokenizer, GivesTheNumbersAndTextsOfThePackage) {
  std::ifstream stream(kModels / "expected_sentencepiece.json");
  const auto expected = SentencePieceJson::parse(stream);
  for (const char* kind : {"llama", "unigram"}) {
    const auto tokenizer = Tokenizer::read(kModels / (std::string(kind) + ".model"));
    EXPECT_EQ(tokenizer.file_name(), "tokenizer.model");
    for (std::size_t i = 0; i < expected["texts"].size(); ++i) {
      const auto tokens = expected[kind]["tokens"][i].get<std::vector<Token>>();
      EXPECT_EQ(numbers_of(tokenizer, expected["texts"][i].get<std::string>()), tokens) << kind << expected["texts"][i];
      EXPECT_EQ(with_replacements(tokenizer.decode(tokens)), expected[kind]["decoded"][i].get<std::string>()) << kind;
    }
  }
}

TEST_F(SentencePieceTokenizer, DecodesTokenByTokenAsAllAtOnce) {
  std::mt19937 numbers(1);
  for (const char* kind : {"llama", "unigram"}) {
    const auto tokenizer = Tokenizer::parse(content_of(kind), kind);
    for (int i = 0; i < 300; ++i) {
      std::vector<Token> tokens(numbers() % 20);
      for (Token& token : tokens) token = static_cast<Token>(numbers() % static_cast<unsigned>(tokenizer.vocabulary()));
      Decoder decoder(tokenizer);
      std::string shown, ahead;  // as "distdl generate" prints them
      for (const Token token : tokens) {
        ahead += decoder.next(token);
        const std::size_t whole = ahead.size() - incomplete_end(ahead);
        shown += with_replacements(ahead.substr(0, whole));
        ahead.erase(0, whole);
      }
      EXPECT_EQ(shown + with_replacements(ahead), with_replacements(tokenizer.decode(tokens)));
    }
  }
}

TEST_F(SentencePieceTokenizer, KnowsItsTokens) {
  const auto tokenizer = Tokenizer::parse(content_of("llama"), "llama");
  EXPECT_EQ(tokenizer.end_of_text(), 2u);
  EXPECT_EQ(tokenizer.added_token("<s>"), 1u);
  EXPECT_TRUE(tokenizer.added_token("<mask>"));
  EXPECT_FALSE(tokenizer.added_token("a"));
  EXPECT_EQ(tokenizer.bytes(0), " \xe2\x81\x87 ");
  EXPECT_EQ(tokenizer.bytes(2), "</s>");
  EXPECT_EQ(tokenizer.bytes(-1), "");
  EXPECT_EQ(tokenizer.bytes(tokenizer.vocabulary()), "");
  EXPECT_EQ(tokenizer.split(), "");
  auto tokens = numbers_of(tokenizer, "free and");
  EXPECT_EQ(tokenizer.bytes(tokens[0])[0], ' ') << "within a text it has a space in front";
  EXPECT_EQ(tokenizer.decode(tokens), "free and");
  tokens.insert(tokens.begin(), 1);
  tokens.push_back(2);
  EXPECT_EQ(tokenizer.decode(tokens), "<s>free and</s>");
  EXPECT_EQ(numbers_of(tokenizer, "</s>").size(), tokenizer.decode(numbers_of(tokenizer, "</s>")).size() + 1)
      << "no text contains a control symbol";
}

TEST_F(SentencePieceTokenizer, EncodesPiecesAsTheWhole) {
  const std::vector<std::string> often{" ",        " ",  "\n", "\xe2\x96\x81", ",",    "a",       "d", "e",
                                       "\xcc\x81", "st", "1",  "\xe4\xb8\xad", "\xff", "\xc2\xa0"};
  std::mt19937 numbers(3);
  const auto content = content_of("llama");
  // As Llama, with spaces removed, without a space in front, with rules, and with both.
  const std::string rules = read_sentence_pieces(content_of("unigram"), "unigram").rules;
  ASSERT_FALSE(rules.empty());
  std::size_t cuts = 0;
  for (const std::string& other : {std::string(), field(3, "\x20\x01"), field(3, std::string("\x18\0", 2)),
                                   normalization(rules), normalization(rules) + field(3, "\x20\x01")}) {
    const auto tokenizer = Tokenizer::parse(content + other, "llama");
    for (int i = 0; i < 200; ++i) {
      std::string text;
      while (text.size() < 80)
        text += numbers() % 9 ? often[numbers() % often.size()] : std::string(1, static_cast<char>(numbers()));
      std::vector<Token> parts;
      Encoder encoder(tokenizer);
      std::size_t at = 0;
      for (std::size_t end = 1; end <= text.size(); ++end) {
        if (end < text.size() && !tokenizer.may_cut(text, end)) continue;
        encoder.encode(std::string_view(text).substr(at, end - at), parts,
                       at == 0 ? TextPart::whole : TextPart::continued);
        at = end, ++cuts;
      }
      EXPECT_EQ(parts, numbers_of(tokenizer, text)) << text;
    }
  }
  EXPECT_GT(cuts, 5000u);
  EXPECT_FALSE(Tokenizer::parse(content_of("unigram"), "unigram").may_cut("a b", 1));
  EXPECT_FALSE(Tokenizer::parse(content + piece("d\xe2\x96\x81"
                                                "a"),
                                "llama")
                   .may_cut("a b", 1))
      << "a piece goes beyond";
}

TEST_F(SentencePieceTokenizer, ReadsAFolder) {
  const auto folder = std::filesystem::path(testing::TempDir()) / fmt::format("sentencepiece-{}", ::getpid());
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(kModels / "llama.model", folder / "tokenizer.model");
  std::ofstream(folder / "tokenizer.json") << "{}";
  EXPECT_EQ(Tokenizer::read(folder).content(), content_of("llama"));
  std::filesystem::remove_all(folder);
}

TEST_F(SentencePieceTokenizer, RefusesDamageOrReadsIt) {
  std::mt19937 numbers(4);
  for (const char* kind : {"llama", "unigram"}) {
    const auto content = content_of(kind);
    std::size_t refusals = 0;
    for (int i = 0; i < 400; ++i) {
      std::string damaged = content;
      if (i % 4 == 0)
        damaged.resize(numbers() % content.size());
      else
        for (int flips = 1 << i % 4; flips > 0; --flips)
          damaged[1 + numbers() % (content.size() - 1)] = static_cast<char>(numbers());
      try {
        const auto tokenizer = Tokenizer::parse(damaged, "damaged");
        for (const Token token : numbers_of(tokenizer, "The <mask> caf\xc3\xa9 e\xcc\x81, it's 1234!\r\n\n  \xff"))
          EXPECT_LT(token, tokenizer.vocabulary());
      } catch (const ConfigError& error) {
        EXPECT_THAT(error.what(), HasSubstr("\"damaged\""));
        ++refusals;
      }
    }
    EXPECT_GT(refusals, 50u);
  }
}

TEST_F(SentencePieceTokenizer, RefusesByNameWhatItDoesNotSupport) {
  EXPECT_EQ(refused(kSmall), "");
  EXPECT_THAT(refused(kSmall + "\x08"), HasSubstr("its protobuf cannot be read"));
  EXPECT_THAT(refused(kSmall + "\x0b\x0c"), HasSubstr("its protobuf cannot be read")) << "a group";
  EXPECT_THAT(refused("\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), HasSubstr("its protobuf cannot be read"));
  EXPECT_THAT(refused(kSmall + piece("c", std::numeric_limits<float>::quiet_NaN())), HasSubstr("piece 4"));
  EXPECT_THAT(refused(kSmall + piece("")), HasSubstr("piece 4"));
  EXPECT_THAT(refused(kSmall + piece("\xff")), HasSubstr("piece 4"));
  EXPECT_THAT(refused(kSmall + piece(std::string(2000, 'a'))), HasSubstr("1 to 1024 bytes"));
  EXPECT_THAT(refused(kSmall + piece("c", 0, 9)), HasSubstr("type of a piece 9"));
  EXPECT_THAT(refused(kSmall + piece("<0xZZ>", 0, 6)), HasSubstr("<0x41>"));
  EXPECT_THAT(refused(kSmall + piece("a")), HasSubstr("already defined"));
  EXPECT_THAT(refused(kSmall.substr(piece("<unk>", 0, 2).size())), HasSubstr("unk is not defined"));
  EXPECT_THAT(refused(kSmall + field(2, "\x18\x07")), HasSubstr("type of model 7"));
  EXPECT_THAT(refused(kSmall + field(5, field(2, "rules"))), HasSubstr("denormalizer_spec"));
  std::string nested = kSmall, symbol = "x";
  for (int i = 0; i < 65; ++i) nested += piece(symbol += 'x', 0, 4);
  EXPECT_THAT(refused(nested), HasSubstr("begin alike"));
  EXPECT_THAT(refused("\n\x01\x02"), HasSubstr("SentencePiece"));
  EXPECT_THAT(refused("IQ== 0\nIg== 1\n"), HasSubstr("tiktoken"));
  EXPECT_THAT(refused("\n{\"model\": 1}"), HasSubstr("\"model\""));
}

TEST_F(SentencePieceTokenizer, RefusesRulesThatLeadNowhere) {
  const auto refused_rules = [](const std::string& rules) { return refused(kSmall + normalization(rules)); };
  const auto units_of = [](std::size_t places) { return std::vector<std::uint32_t>(places, 0x80000000); };
  EXPECT_THAT(refused_rules("abc"), HasSubstr("bytes of rules"));
  EXPECT_THAT(refused_rules(std::string("\xff\xff\xff\x7f", 4) + "abc"), HasSubstr("have no end"));
  EXPECT_THAT(refused_rules(rules_of(units_of(256), "no end")), HasSubstr("have no end"));
  EXPECT_THAT(refused_rules(rules_of(units_of(256), std::string(5000, 'a') + '\0')), HasSubstr("have no end"));
  const std::string end(1, '\0');
  auto units = units_of(512);
  units[0] = 0x40000000;  // far away
  EXPECT_THAT(refused_rules(rules_of(units, end)), HasSubstr("lead nowhere"));
  units[0] = 256U << 10;
  EXPECT_EQ(refused_rules(rules_of(units, end)), "");
  units[256 + 'a'] = 'a' | 1U << 8;  // a result at its own place, which is no such
  EXPECT_THAT(refused_rules(rules_of(units, end)), HasSubstr("lead nowhere"));
  units[256 + 'a'] = 'a' | static_cast<std::uint32_t>('a') << 10;  // a circle
  EXPECT_THAT(refused_rules(rules_of(units, end)), HasSubstr("lead nowhere"));
  // 33 keys, each the beginning of the next: "a", "aa" and so on.
  units = units_of(256 * 40);
  for (std::uint32_t i = 0; i < 34; ++i) {
    const std::uint32_t place = i == 0 ? 0 : 256 * i + 'a', there = 256 * (i + 1);
    units[place] = (place ^ there) << 10 | (i == 0 ? 0 : 'a' | 1U << 8);
    units[there] = 0x80000000;
  }
  EXPECT_THAT(refused_rules(rules_of(units, end)), HasSubstr("lead nowhere"));
  units[256 * 10 + 'a'] = 0x80000000;
  EXPECT_EQ(refused_rules(rules_of(units, end)), "");
}
}  // namespace
}  // namespace distdl::tokenizer
