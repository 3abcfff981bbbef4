// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <zstd.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/data/document_import.hpp>
#include <distdl/data/source.hpp>
#include <distdl/data/tokens.hpp>
#include <distdl/tokenizer/tokenizer.hpp>

namespace distdl::data {
namespace {
using testing::HasSubstr;

const std::filesystem::path kTiny = DISTDL_SOURCE_DIR "/tests/tokenizer/tiny";

class ImportDocuments : public testing::Test {
 protected:
  /// Imports files of the scratch folder to out.h5; its tokens as text.
  std::string run(TextImport import) {
    for (auto& input : import.inputs) input = folder_.path() / input;
    about_ = import_text(import, folder_ / "out.h5", Overwrite::replace);
    return text_of(folder_ / "out.h5");
  }
  std::string text_of(const std::filesystem::path& file) {
    auto set = TokenSet::open(file);
    tokens_.resize(static_cast<std::size_t>(set.description().samples));
    set.read(0, tokens_);
    const std::string json = set.tokenizer();
    std::string text;
    if (json.empty()) {
      for (const std::int32_t token : tokens_) text += static_cast<char>(token);
    } else {
      text = tokenizer::Tokenizer::parse(json, "set").decode({tokens_.begin(), tokens_.end()});
    }
    return text;
  }
  std::string refusal(const TextImport& import) {
    try {
      run(import);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  void put(const std::string& name, const std::string& content) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file(folder_ / name, content);
  }
  static std::string gpt2() { return kTiny / "gpt2.json"; }

  ScratchFolder folder_;
  Description about_;
  std::vector<std::int32_t> tokens_;
};

TEST_F(ImportDocuments, TakesTheFieldOfEachLineOfJson) {
  put("a.jsonl",
      "{\"text\": \"one \\u00e9\\n\"}\n\n{\"id\": 3, \"text\": \"two\"}\r\n{\"text\": \"\"}\n{\"text\": \"three\"}");
  EXPECT_EQ(run({.inputs = {"a.jsonl"}, .separator = "|"}), "one \xc3\xa9\n|two|three|");
  EXPECT_EQ(about_.classes, 256);
  EXPECT_EQ(about_.origin, "text a.jsonl");
  put("b.ndjson", "{\"body\": \"x\", \"text\": \"y\"}\n");
  EXPECT_EQ(run({.inputs = {"b.ndjson", "a.jsonl"}, .field = "text"}), "yone \xc3\xa9\ntwothree");
  EXPECT_EQ(run({.inputs = {"b.ndjson"}, .field = "body"}), "x");
}

TEST_F(ImportDocuments, TakesAColumnOfTables) {
  put("a.csv", "\xef\xbb\xbfid,text,more\r\n1,plain,x\r\n2,\"a \"\"quoted\"\", and\ntwo lines\",y\n3,last,");
  EXPECT_EQ(run({.inputs = {"a.csv"}, .separator = "|"}), "plain|a \"quoted\", and\ntwo lines|last|");
  put("a.tsv", "text\tn\na, b\t1\nc\t2\n");
  EXPECT_EQ(run({.inputs = {"a.tsv"}, .separator = "|"}), "a, b|c|");
  EXPECT_EQ(run({.inputs = {"a.tsv"}, .format = TextFormat::text}), "text\tn\na, b\t1\nc\t2\n");
}

TEST_F(ImportDocuments, ReadsFoldersInSortedOrderAndCompressedFiles) {
  put("d/b/1.txt", "1");
  put("d/a.txt", "a");
  put("d/c.jsonl.zst", [] {
    const std::string line = "{\"text\": \"c\"}\n";
    std::string packed(ZSTD_compressBound(line.size()), ' ');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), line.data(), line.size(), 1));
    return packed;
  }());
  put("d/.hidden", "h");
  put("d/.git/x", "h");
  put("e.txt", "e");
  EXPECT_EQ(run({.inputs = {"e.txt", "d"}, .separator = "|"}), "e|a|1|c|");
  EXPECT_EQ(about_.origin, "text e.txt and 1 more");
}

TEST_F(ImportDocuments, ReadsAPipe) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "from a pipe"; });
  EXPECT_EQ(run({.inputs = {"pipe"}}), "from a pipe");
  writer.join();
}

TEST_F(ImportDocuments, KeepsItsTokenizer) {
  put("a.jsonl", "{\"text\": \"All human beings\"}\n{\"text\": \"are born <|endoftext|>\"}\n");
  EXPECT_EQ(run({.inputs = {"a.jsonl"}, .tokenizer = gpt2()}),
            "All human beings<|endoftext|>are born <|endoftext|><|endoftext|>");
  EXPECT_EQ(TokenSet::open(folder_ / "out.h5").tokenizer(), read_file(gpt2()));
  EXPECT_EQ(about_.origin, "text a.jsonl tokenizer=gpt2.json");
  EXPECT_GT(about_.classes, 256);
  EXPECT_EQ(verify_file(folder_ / "out.h5").damage, std::vector<std::string>{});
  const auto digest = TokenSet::open(folder_ / "out.h5").digest();
  EXPECT_EQ(digest_of_file(folder_ / "out.h5"), digest);
  EXPECT_EQ(run({.inputs = {"a.jsonl"}, .tokenizer = gpt2(), .separator = ""}),
            "All human beingsare born <|endoftext|>");
  EXPECT_THAT(refusal({.inputs = {"a.jsonl"}, .tokenizer = gpt2(), .separator = "two words"}),
              HasSubstr("one is expected"));
}

TEST_F(ImportDocuments, GivesTheSameBytesForAnyNumberOfThreads) {
  std::string text, lines;
  for (int i = 0; text.size() < 2'600'000; ++i) {
    text += fmt::format(" word{} is {}\n", i * 7919 % 5003, i);
    if (i % 50 == 0)
      lines +=
          fmt::format("{{\"text\": \"{} caf\\u00e9 {}\"}}\n", std::string(static_cast<std::size_t>(i % 700), 'x'), i);
  }
  put("a.txt", text);
  put("b.jsonl", lines);
  std::string json = read_file(kTiny / "llama3.json");
  json.replace(json.find("\"n\xc3\xa9 e\""), 7, "\"n\xc3\xa9-e\"");  // a token with a space forbids cuts
  put("t.json", json);
  std::string first;
  for (const std::int64_t threads : {1, 2, 7}) {
    const auto got =
        run({.inputs = {"a.txt", "b.jsonl"}, .tokenizer = folder_ / "t.json", .separator = "", .threads = threads});
    EXPECT_TRUE(got.starts_with(text));
    const std::string bytes = read_file(folder_ / "out.h5");
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << threads;
  }
  // The text was cut for the threads, where a cut changes no token.
  std::vector<tokenizer::Token> whole;
  tokenizer::Encoder(tokenizer::Tokenizer::parse(json, "t")).encode(text, whole);
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), tokens_.begin()));
}

TEST_F(ImportDocuments, EndsAPieceOfAnySizeWithOneSeparator) {
  for (const std::size_t size : {(std::size_t{1} << 20) - 1, std::size_t{1} << 20, (std::size_t{2} << 20) + 1}) {
    put("a.txt", std::string(size, 'x'));
    EXPECT_TRUE(run({.inputs = {"a.txt"}, .separator = "|"}) == std::string(size, 'x') + "|") << size;
  }
}

TEST_F(ImportDocuments, SaysWhereTheInputIsWrong) {
  put("a.jsonl", "{\"text\": \"one\"}\n{\"title\": \"two\"}\n");
  EXPECT_THAT(refusal({.inputs = {"a.jsonl"}}),
              HasSubstr("a.jsonl\", line 2: it has no text \"text\"; its texts are \"title\""));
  put("a.jsonl", "{\"text\": \"one\"}\n\n[1]\n");
  EXPECT_THAT(refusal({.inputs = {"a.jsonl"}}), HasSubstr("line 3: it is no object of JSON"));
  put("a.jsonl", "{\"text\": \"\xff\"}\n");
  EXPECT_THAT(refusal({.inputs = {"a.jsonl"}}), HasSubstr("line 1: it is no object of JSON in UTF-8"));
  put("a.jsonl", "{\"text\": null}");
  EXPECT_THAT(refusal({.inputs = {"a.jsonl"}}), HasSubstr("its texts are none"));
  put("a.csv", "id,body\n1,x\n");
  EXPECT_THAT(refusal({.inputs = {"a.csv"}}),
              HasSubstr("has no column \"text\": its first line names \"id\", \"body\""));
  put("a.csv", "id,text\n1,x\n\"a\n\n\"\n");
  EXPECT_THAT(refusal({.inputs = {"a.csv"}}), HasSubstr("line 3: it has 1 columns, but \"text\" is column 2"));
  put("a.csv", "PAR1");
  EXPECT_THAT(refusal({.inputs = {"a.csv"}}), HasSubstr("a Parquet file"));
  put("a.csv", "text\n\"" + std::string(70 << 20, 'x'));
  EXPECT_THAT(refusal({.inputs = {"a.csv"}}), HasSubstr("after line 1 come more than 67108864 bytes"));
  put("a.jsonl", "\n\n");
  EXPECT_THAT(refusal({.inputs = {"a.jsonl"}}), HasSubstr("is empty"));
  std::filesystem::create_directory(folder_ / "nothing");
  EXPECT_THAT(refusal({.inputs = {"nothing"}}), HasSubstr("has no files"));
  EXPECT_THAT(refusal({.inputs = {"none"}}), HasSubstr("none"));
  EXPECT_THAT(refusal({.inputs = {"a.csv"}, .tokenizer = kTiny / "expected.json"}), HasSubstr("\"model\" is missing"));
  EXPECT_EQ(folder_.entries(), 3u) << "nothing is left behind";
}

TEST_F(ImportDocuments, RefusesAnotherTokenizerForValidation) {
  put("a.txt", std::string(1000, 'a'));
  for (const std::string kind : {"llama3", "qwen"})
    import_text({.inputs = {folder_ / "a.txt"}, .tokenizer = kTiny / (kind + ".json")}, folder_ / (kind + ".h5"),
                Overwrite::refuse);
  Options options;
  options.train = folder_ / "llama3.h5", options.validation = folder_ / "qwen.h5";
  try {
    open_sources(options, 8, 1);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("another tokenizer"), HasSubstr("both must agree")));
  }
}

}  // namespace
}  // namespace distdl::data
