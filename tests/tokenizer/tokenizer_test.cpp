// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iterator>
#include <random>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/tokenizer/tokenizer.hpp>
#include <distdl/tokenizer/utf8.hpp>

namespace distdl::tokenizer {
namespace {
using nlohmann::json;
using testing::HasSubstr;

const std::filesystem::path kTiny = DISTDL_SOURCE_DIR "/tests/tokenizer/tiny";
const std::vector<std::string> kKinds{"gpt2", "llama3", "qwen"};

json read_json(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return json::parse(stream);
}
Tokenizer tiny(const std::string& kind) {
  return Tokenizer::read(kTiny / (kind + ".json"));
}
std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Token> tokens;
  Encoder(tokenizer).encode(text, tokens);
  return tokens;
}
std::string random_bytes(std::mt19937& numbers, std::size_t length) {
  static constexpr std::string_view kOften = " \n\r\t'aesdt09.!<|>\xc3\xa9\xcc\x81\xe4\xb8\xad\xff";
  std::string text;
  while (text.size() < length) text += numbers() % 4 ? kOften[numbers() % kOften.size()] : static_cast<char>(numbers());
  return text;
}

/// What make_tiny.py has from Hugging Face's library.
TEST(Tokenizer, GivesTheNumbersOfHuggingFace) {
  const json expected = read_json(kTiny / "expected.json");
  for (const auto& kind : kKinds) {
    const Tokenizer tokenizer = tiny(kind);
    for (std::size_t i = 0; i < expected["texts"].size(); ++i)
      EXPECT_EQ(encode(tokenizer, expected["texts"][i].get<std::string>()), expected[kind][i].get<std::vector<Token>>())
          << kind << " " << expected["texts"][i];
  }
}

TEST(Tokenizer, GivesAnyBytesBack) {
  std::mt19937 numbers(1);
  for (const std::string kind : {"gpt2", "llama3"}) {
    const Tokenizer tokenizer = tiny(kind);
    for (int i = 0; i < 300; ++i) {
      const std::string text = random_bytes(numbers, numbers() % 200);
      EXPECT_EQ(tokenizer.decode(encode(tokenizer, text)), text) << kind;
    }
  }
}

TEST(Tokenizer, GivesTextsInFormNfcBack) {
  const Tokenizer tokenizer = tiny("qwen");
  EXPECT_EQ(tokenizer.decode(encode(tokenizer, "\xc3\xa9 e\xcc\x81 \xff")), "\xc3\xa9 \xc3\xa9 \xff");
}

TEST(Tokenizer, EncodesPiecesAsTheWhole) {
  std::mt19937 numbers(2);
  for (const auto& kind : kKinds) {
    json document = read_json(kTiny / (kind + ".json"));
    for (json& token : document["added_tokens"]) {  // such tokens may lie across a cut
      token["rstrip"] = false;
      if (token["content"] == "n\xc3\xa9 e") token["content"] = "n\xc3\xa9-e";
    }
    const auto tokenizer = Tokenizer::parse(document.dump(), kind);
    std::size_t cuts = 0;
    for (int i = 0; i < 300; ++i) {
      const std::string text = random_bytes(numbers, 60);
      std::vector<Token> pieces;
      Encoder encoder(tokenizer);
      std::size_t at = 0;
      for (std::size_t end = 1; end <= text.size(); ++end) {
        if (end < text.size() && !tokenizer.may_cut(text, end)) continue;
        encoder.encode(std::string_view(text).substr(at, end - at), pieces);
        at = end, ++cuts;
      }
      EXPECT_EQ(pieces, encode(tokenizer, text)) << kind << " " << text;
    }
    EXPECT_GT(cuts, 500u);
  }
  EXPECT_FALSE(tiny("gpt2").may_cut("a b", 1)) << "its token <mask> takes the white space behind it";
  EXPECT_FALSE(tiny("qwen").may_cut("a b", 1)) << "one of its tokens has a space";
}

TEST(Tokenizer, RemembersMoreWordsThanItHasRoomFor) {
  const Tokenizer tokenizer = tiny("llama3");
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += fmt::format(" w{:x}q", i * 7919);
  std::vector<Token> all;
  Encoder encoder(tokenizer);
  encoder.encode(text, all);
  EXPECT_EQ(tokenizer.decode(all), text);
  std::vector<Token> again;
  encoder.encode(text.substr(0, 1000), again);
  EXPECT_EQ(again, encode(tokenizer, text.substr(0, 1000)));
}

TEST(Tokenizer, ReadsTheFilesOfGpt2) {
  const json expected = read_json(kTiny / "expected.json"), document = read_json(kTiny / "gpt2.json");
  const auto folder = std::filesystem::path(testing::TempDir()) / fmt::format("gpt2-{}", ::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "vocab.json") << document["model"]["vocab"];
  std::ofstream lines(folder / "merges.txt");
  lines << "#version: 0.2\n";
  for (const json& merge : document["model"]["merges"])
    lines << merge[0].get<std::string>() << " " << merge[1].get<std::string>() << "\n";
  lines.close();
  const auto pair = Tokenizer::read(folder);
  const auto again = Tokenizer::parse(pair.content(), "again");
  for (std::size_t i = 0; i < 11; ++i) {  // texts without added tokens
    const auto text = expected["texts"][i].get<std::string>();
    EXPECT_EQ(encode(pair, text), expected["gpt2"][i].get<std::vector<Token>>());
    EXPECT_EQ(encode(again, text), encode(pair, text));
  }
  std::filesystem::remove(folder / "merges.txt");
  EXPECT_THROW(Tokenizer::read(folder), ConfigError);
  std::filesystem::remove_all(folder);
  EXPECT_THROW(Tokenizer::read(folder), StorageError);
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer tokenizer = tiny("llama3");
  EXPECT_EQ(tokenizer.split(), "Llama 3");
  EXPECT_EQ(tiny("gpt2").split(), "GPT-2");
  EXPECT_EQ(tiny("qwen").split(), "Qwen");
  const auto end = tokenizer.added_token("<|end_of_text|>");
  ASSERT_TRUE(end);
  EXPECT_EQ(tokenizer.end_of_text(), end);
  EXPECT_EQ(tokenizer.bytes(*end), "<|end_of_text|>");
  EXPECT_EQ(tokenizer.bytes(tokenizer.vocabulary()), "");
  EXPECT_EQ(tokenizer.bytes(-1), "");
  EXPECT_FALSE(tokenizer.added_token("a"));
}

TEST(Utf8, WaitsForWholeCharacters) {
  const std::string text = "a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80";
  const std::vector<std::size_t> expected{0, 0, 1, 0, 1, 2, 0, 1, 2, 3, 0};
  for (std::size_t end = 0; end <= text.size(); ++end) EXPECT_EQ(incomplete_end(text.substr(0, end)), expected[end]);
  EXPECT_EQ(incomplete_end("\x80\x80\x80\x80"), 0u);
  EXPECT_EQ(incomplete_end("\xff"), 0u);
  EXPECT_EQ(with_replacements(text + "\xe4\xb8"), text + "\xef\xbf\xbd\xef\xbf\xbd");
}

std::string refusal(const std::string& text) {
  try {
    Tokenizer::parse(text, "t.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "it was accepted";
}

TEST(Tokenizer, RefusesWhatIsNoTokenizer) {
  EXPECT_THAT(refusal(""), HasSubstr("not an object of JSON"));
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("not an object of JSON"));
  EXPECT_THAT(refusal("{\"model\": "), HasSubstr("not an object of JSON"));
  EXPECT_THAT(refusal("GGUF\3"), HasSubstr("a GGUF file of llama.cpp"));
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(refusal("{}"), HasSubstr("\"model\" is missing"));
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("not an object of JSON"));
}

TEST(Tokenizer, RefusesByNameWhatItDoesNotSupport) {
  struct Case {
    std::string place;
    json value;
    std::string message;
  };
  const json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const std::vector<Case> cases{
      {"/model/type", "Unigram", "the model \"Unigram\" is not supported; byte-level BPE is"},
      {"/model/byte_fallback", true, "byte_fallback"},
      {"/model/dropout", 0.1, "\"dropout\""},
      {"/model/end_of_word_suffix", "</w>", "\"end_of_word_suffix\""},
      {"/model/vocab", json::object(), "no token stands for the byte 0x00"},
      {"/model/vocab/many", 1 << 30, "the token \"many\" has the number 1073741824, but 0 to 16777215"},
      {"/model/vocab/minus", -1, "has the number -1"},
      {"/model/vocab/text", "1", "has the number \"1\""},
      {"/model/vocab/again", 5, "two tokens have the number 5"},
      {"/model/vocab/", 9999, "is empty"},
      {"/model/merges", "a b", "no list \"merges\""},
      {"/model/merges/0", "a b c", "\"a b c\" is not a merge of two tokens"},
      {"/model/merges/0", json::array({"a", "nowhere"}), "needs the token \"nowhere\""},
      {"/model/merges/0", json::array({"a", "\xc5\x81"}), "needs the token \"a\xc5\x81\""},
      {"/model/merges/0", json::array({"", "a"}), "needs the token \"\""},
      {"/normalizer", {{"type", "NFKC"}}, "the normalizer \"NFKC\" is not supported; NFC and none are"},
      {"/pre_tokenizer", {{"type", "Whitespace"}}, "the pre-tokenizer \"Whitespace\" is not supported"},
      {"/pre_tokenizer", nullptr, "the pre-tokenizer \"none\" is not supported"},
      {"/pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", "\\d"}}}, {"behavior", "Isolated"}}, byte_level}}},
       "splits by {\"Regex\":\"\\\\d\"}, which is not supported; the expressions of GPT-2, Llama 3, Qwen are"},
      {"/decoder", {{"type", "Metaspace"}}, "the decoder \"Metaspace\" is not supported"},
      {"/added_tokens/0/single_word", true, "\"single_word\""},
      {"/added_tokens/0/content", "", "is empty"},
      {"/added_tokens/0/id", 3, "two tokens have the number 3"},
      {"/added_tokens/0/content", "a", "but the vocabulary has it with"},
  };
  const json good = read_json(kTiny / "gpt2.json");
  for (const Case& each : cases) {
    json document = good;
    document[json::json_pointer(each.place)] = each.value;
    EXPECT_THAT(refusal(document.dump()), HasSubstr(each.message)) << each.place;
  }
}

}  // namespace
}  // namespace distdl::tokenizer
