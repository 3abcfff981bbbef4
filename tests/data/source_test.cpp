// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include <gmock/gmock.h>

#include "tests/data/scratch_folder.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/data/augmentation.hpp>
#include <distdl/data/normalization.hpp>
#include <distdl/data/prefetcher.hpp>
#include <distdl/data/source.hpp>
#include <distdl/data/text_import.hpp>
#include <distdl/data/tokens.hpp>

namespace distdl::data {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

template <class Error, class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Numbers of tokens, uint16 and little-endian, after llm.c's header if there is one.
std::string numbers(const std::vector<std::uint16_t>& tokens, std::int32_t announced = -1) {
  std::string text;
  if (announced >= 0) {
    std::vector<std::int32_t> header(256);
    header[0] = 20240520, header[1] = 1, header[2] = announced;
    text.assign(reinterpret_cast<const char*>(header.data()), header.size() * sizeof(std::int32_t));
  }
  return text.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(std::uint16_t));
}

TEST(View, IsAPureFunctionOfSeedEpochAndSample) {
  std::set<std::pair<std::int64_t, std::int64_t>> shifts;
  int mirrored = 0;
  for (std::int64_t sample = 0; sample < 4000; ++sample) {
    const View view = view_of(7, 3, sample, 2, true);
    shifts.insert({view.down, view.right});
    mirrored += view.mirrored;
    const View again = view_of(7, 3, sample, 2, true);
    EXPECT_TRUE(again.down == view.down && again.right == view.right && again.mirrored == view.mirrored);
  }
  EXPECT_EQ(shifts.size(), 25u) << "all of -2 .. 2, both ways";
  EXPECT_NEAR(mirrored, 2000, 150);
  int same = 0;
  for (std::int64_t sample = 0; sample < 1000; ++sample)
    same += view_of(7, 3, sample, 2, true).down == view_of(7, 4, sample, 2, true).down;
  EXPECT_NEAR(same, 200, 60) << "another epoch shows it anew";
}

TEST(View, ShiftsAndMirrorsEachChannel) {
  const std::vector<std::uint8_t> pixels{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};  // (2, 2, 3)
  PixelTables values(2);
  for (auto& table : values) std::iota(table.begin(), table.end(), 0.0f);
  const auto seen = [&](const View& view) {
    std::vector<float> out(pixels.size(), -1);
    render(pixels, {2, 2, 3}, view, values, out.data());
    return out;
  };
  EXPECT_THAT(seen({}), ElementsAre(1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16));
  EXPECT_THAT(seen({1, 0, false}), ElementsAre(0, 0, 0, 1, 2, 3, 0, 0, 0, 11, 12, 13));
  EXPECT_THAT(seen({0, -1, false}), ElementsAre(2, 3, 0, 5, 6, 0, 12, 13, 0, 15, 16, 0));
  EXPECT_THAT(seen({-1, 2, true}), ElementsAre(4, 0, 0, 0, 0, 0, 14, 0, 0, 0, 0, 0));
  EXPECT_THAT(seen({0, 0, true}), ElementsAre(3, 2, 1, 6, 5, 4, 13, 12, 11, 16, 15, 14));
  EXPECT_THAT(seen({5, -7, true}), testing::Each(0)) << "nothing of it is left";
}

class Text : public testing::Test {
 protected:
  Text() {
    std::string text;
    for (int i = 0; i < 200'000; ++i) text += static_cast<char>(i * 31 % 251);
    text_ = text;
    write_file(folder_ / "text", text);
    import_text(folder_ / "text", folder_ / "text.h5", Overwrite::refuse);
    options_.train = folder_ / "text.h5";
    context_ = 100;
  }
  std::uint8_t token(std::int64_t at) const { return static_cast<std::uint8_t>(text_[static_cast<std::size_t>(at)]); }

  ScratchFolder folder_;
  std::string text_;
  Options options_;
  std::int64_t context_ = 100;
};

TEST_F(Text, EachTokenIsSeenOnceAnEpochAndLabelledWithTheNext) {
  auto training = open_sources(options_, context_, 5).training;
  EXPECT_EQ(training->shape(), (tensor::Shape{100}));
  EXPECT_EQ(training->labels_per_sample(), 100);
  EXPECT_EQ(training->classes(), 256);
  std::set<std::int64_t> starts;
  for (std::int64_t epoch : {0, 1, 2}) {
    std::vector<Source::Pick> picks;
    for (std::int64_t i = 0; i < training->samples(); ++i) picks.push_back({epoch, i});
    Batch batch;
    training->read(picks, batch);
    const auto count = static_cast<std::int64_t>(batch.tokens.size());
    ASSERT_EQ(batch.labels.size(), batch.tokens.size());
    ASSERT_GE(count, 200'000 - 2 * 100);
    std::int64_t start = 0;
    while (start < 100 && token(start) != batch.tokens[0]) ++start;
    starts.insert(start);
    for (std::int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(batch.tokens[static_cast<std::size_t>(i)], token(start + i)) << i;
      ASSERT_EQ(batch.labels[static_cast<std::size_t>(i)], token(start + i + 1)) << i;
    }
  }
  EXPECT_GT(starts.size(), 1u) << "windows begin elsewhere in other epochs";
}

TEST_F(Text, WhatIsHeldOutIsEvaluatedAndNotTrainedOn) {
  options_.holdout = 20'000;
  auto sources = open_sources(options_, context_, 5);
  EXPECT_EQ(sources.validation->samples(), 199);
  Batch batch;
  sources.validation->read(std::vector<Source::Pick>{{0, 0}, {3, 198}}, batch);
  EXPECT_EQ(batch.tokens[0], token(180'000));
  EXPECT_EQ(batch.labels.back(), token(180'000 + 199 * 100));
  for (std::int64_t epoch = 0; epoch < 50; ++epoch)
    sources.training->read(std::vector<Source::Pick>{{epoch, sources.training->samples() - 1}}, batch);
  options_.holdout = 20'000 - 100;
  EXPECT_EQ(open_sources(options_, context_, 5).training->samples(), sources.training->samples() + 1);
}

TEST_F(Text, TooFewTokensAreRefused) {
  context_ = 100'001;
  EXPECT_THAT(error_of<ConfigError>([&] { open_sources(options_, context_, 1); }), HasSubstr("too few for one sample"));
  context_ = 100;
  options_.holdout = 50;
  EXPECT_THAT(error_of<ConfigError>([&] { open_sources(options_, context_, 1); }),
              HasSubstr("too few tokens to evaluate on"));
  context_ = 0;
  EXPECT_THAT(error_of<ConfigError>([&] { open_sources(options_, context_, 1); }), HasSubstr("model.context is 0"));
}

TEST_F(Text, DamageIsFoundWhereItIsUsed) {
  std::string bytes = read_file(folder_ / "text.h5");
  const auto payload = bytes.find(text_.substr(0, 1000));
  ASSERT_NE(payload, std::string::npos);
  bytes[payload + 70'000] ^= 1;
  write_file(folder_ / "text.h5", bytes);
  auto set = TokenSet::open(folder_ / "text.h5");
  std::vector<std::int32_t> tokens(1000);
  EXPECT_NO_THROW(set.read(0, tokens));
  EXPECT_THAT(error_of<StorageError>([&] { set.read(65'000, tokens); }), HasSubstr("chunk 1 of /tokens"));
  EXPECT_THAT(error_of<ConfigError>([&] { set.read(199'500, tokens); }), HasSubstr("outside the data set of 200000"));
}

TEST_F(Text, ThatIsChangedWhileItIsReadIsNeverSeenAsAnother) {
  constexpr std::int64_t kLarge = 18 << 20;  // more than the tokens that are kept in memory
  std::string large;
  while (static_cast<std::int64_t>(large.size()) < kLarge) large += text_;
  write_file(folder_ / "large", large);
  import_text(folder_ / "large", folder_ / "large.h5", Overwrite::refuse);
  auto set = TokenSet::open(folder_ / "large.h5");
  std::vector<std::int32_t> tokens(1000);
  set.read(0, tokens);
  const std::string bytes = read_file(folder_ / "large.h5");
  const auto payload = bytes.find(large.substr(0, 1000));
  ASSERT_NE(payload, std::string::npos);
  std::fstream file(folder_ / "large.h5", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(payload) + 10);
  file << "another text" << std::flush;
  // Either the tokens as they were or an error, whatever was read of the file meanwhile.
  for (int round = 0; round < 2; ++round) {
    const auto seen = error_of<StorageError>([&] {
      set.read(0, tokens);
      EXPECT_EQ(tokens[15], static_cast<std::uint8_t>(large[15]));
    });
    EXPECT_THAT(seen, round == 0 ? HasSubstr("no error") : HasSubstr("chunk 0 of /tokens"));
    for (std::int64_t at = 0; round == 0 && at < kLarge; at += 1 << 16) set.read(at, std::span(tokens).first(1));
  }
}

TEST_F(Text, DigestsTellSetsOfOneShapeApart) {
  const auto digest = [&](const std::string& name, const std::string& content) {
    write_file(folder_ / name, content);
    import_text(folder_ / name, folder_ / (name + ".h5"), Overwrite::replace);
    options_.train = folder_ / (name + ".h5");
    return open_sources(options_, context_, 5).training->digest();
  };
  const std::string first = digest("one", text_);
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(digest("two", text_), first) << "where it comes from does not count";
  std::string other = text_;
  other[150'000] ^= 1;
  EXPECT_NE(digest("one", other), first);
}

TEST(ImportTokens, TakesNumbersWithAndWithoutAHeader) {
  ScratchFolder folder;
  const std::vector<std::uint16_t> tokens{5, 50256, 300, 0, 7, 7};
  for (std::int32_t announced : {-1, 6}) {
    write_file(folder / "tokens.bin", numbers(tokens, announced));
    const auto about = import_tokens({folder / "tokens.bin"}, folder / "a.h5", Overwrite::replace);
    EXPECT_EQ(about.samples, 6);
    EXPECT_EQ(about.classes, 50257);
    std::vector<std::int32_t> found(6);
    TokenSet::open(folder / "a.h5").read(0, found);
    EXPECT_THAT(found, ElementsAre(5, 50256, 300, 0, 7, 7));
  }
  write_file(folder / "few.bin", numbers({1, 2, 3}));
  EXPECT_EQ(import_tokens({folder / "few.bin", 4}, folder / "few.h5", Overwrite::refuse).classes, 4);
  std::vector<std::int32_t> few(2);
  TokenSet::open(folder / "few.h5").read(1, few);
  EXPECT_THAT(few, ElementsAre(2, 3));
}

TEST(ImportTokens, RefusesWhatIsNotTokens) {
  ScratchFolder folder;
  const auto refusal = [&](const std::string& bytes, std::int64_t vocabulary) {
    write_file(folder / "a.bin", bytes);
    return error_of<ConfigError>([&] {
      import_tokens({folder / "a.bin", vocabulary}, folder / "a.h5", Overwrite::refuse);
    });
  };
  EXPECT_THAT(refusal(numbers({1, 300}), 300), HasSubstr("token 1 of"));
  EXPECT_THAT(refusal("abc", 50257), HasSubstr("ends within a token"));
  EXPECT_THAT(refusal("", 50257), HasSubstr("contains no tokens"));
  EXPECT_THAT(refusal(numbers({1, 2}, 3), 50257), HasSubstr("contains 2 tokens, but its header says 3"));
}

std::string npy(const std::string& type, const std::string& shape, const std::string& values) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' + header + values;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(ImportTokens, TakesWhatOtherProgramsWriteByWhatItIs) {
  ScratchFolder folder;
  const std::vector<std::int64_t> tokens{5, 100'000, 70'000, 0, 128'255, 7};
  const std::vector<std::uint32_t> words(tokens.begin(), tokens.end());
  std::string llm_c = bytes_of(std::vector<std::int32_t>{20240801, 7, 6});
  llm_c.resize(1024, '\0');
  const std::vector<std::pair<std::string, TokenType>> files{
      {llm_c + bytes_of(words), TokenType::automatic},
      {npy("<i8", "(6,)", bytes_of(tokens)), TokenType::automatic},
      {npy("<u4", "(6,)", bytes_of(words)), TokenType::automatic},
      {bytes_of(words), TokenType::uint32}};
  for (const auto& [bytes, type] : files) {
    write_file(folder / "tokens", bytes);
    const auto about = import_tokens({folder / "tokens", 128'256, type}, folder / "a.h5", Overwrite::replace);
    EXPECT_EQ(about.classes, 128'256);
    auto set = TokenSet::open(folder / "a.h5");
    std::vector<std::int32_t> found(6);
    set.read(0, found);
    EXPECT_THAT(found, ElementsAre(5, 100'000, 70'000, 0, 128'255, 7));
    EXPECT_TRUE(verify_file(folder / "a.h5").damage.empty());
  }
}

TEST(ImportTokens, RefusesWhatIsSomethingElse) {
  ScratchFolder folder;
  const auto refusal = [&](const std::string& bytes, TokenType type = TokenType::automatic) {
    write_file(folder / "a.bin", bytes);
    return error_of<ConfigError>([&] {
      import_tokens({folder / "a.bin", 50257, type}, folder / "a.h5", Overwrite::replace);
    });
  };
  EXPECT_THAT(refusal("Is this a text? It is."), HasSubstr("data import text"));
  EXPECT_THAT(refusal(std::string("PK\3\4", 4) + numbers({1, 2})), HasSubstr("zip archive"));
  EXPECT_THAT(refusal("\x89HDF\r\n\x1a\n" + numbers({1, 2})), HasSubstr("HDF5"));
  const std::vector<std::uint32_t> words{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_THAT(refusal(bytes_of(words)), HasSubstr("--type uint32"));
  EXPECT_THAT(refusal(bytes_of(words), TokenType::uint16), HasSubstr("no error")) << "as the user says";
  EXPECT_THAT(refusal(npy("<f4", "(2,)", std::string(8, 'x'))), HasSubstr("'<f4'"));
  EXPECT_THAT(refusal(npy(">u2", "(4,)", std::string(8, 'x'))), HasSubstr("little-endian"));
  EXPECT_THAT(refusal(npy("<u2", "(2, 2)", std::string(8, 'x'))), HasSubstr("one dimension"));
  EXPECT_THAT(refusal(npy("<u2", "(5,)", numbers({1, 2}))), HasSubstr("its header says 5"));
  EXPECT_THAT(refusal(npy("<i2", "(2,)", numbers({1, 65535}))), HasSubstr("is -1"));
  for (const std::uint16_t first : {640, 35615, 19280})  // as pickles, gzip and zip begin
    EXPECT_THAT(refusal(numbers({first, 50000, 3})), HasSubstr("no error"));
}

/// Tells where its samples come from; slow, or failing, where asked.
class Told final : public Source {
 public:
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return shape_; }
  std::int64_t classes() const override { return 1; }
  std::int64_t labels_per_sample() const override { return 1; }
  std::int64_t samples() const override { return 1000; }
  const std::string& digest() const override { return name_; }
  void read(std::span<const Pick> picks, Batch& batch) override {
    std::this_thread::sleep_for(pause_);
    batch.labels.clear();
    for (const auto& [epoch, index] : picks) batch.labels.push_back(static_cast<std::int32_t>(epoch * 1000 + index));
    ++reads_;
    if (fails_.exchange(false)) throw StorageError("a chunk is damaged", ExitCode::corrupt);
  }
  std::atomic<int> reads_ = 0;
  std::atomic<bool> fails_ = false;
  std::chrono::milliseconds pause_{0};

 private:
  std::string name_ = "\"told\"";
  tensor::Shape shape_{1};
};

std::vector<std::int32_t> expected(const Sampler& sampler, std::int64_t position, int count) {
  std::vector<std::int32_t> labels;
  for (std::int64_t p = position; p < position + count; ++p)
    labels.push_back(static_cast<std::int32_t>(sampler.epoch(p) * 1000 + sampler.index(p)));
  return labels;
}

TEST(Prefetcher, GivesWhatIsAskedForInAnyOrder) {
  Told source;
  const Sampler sampler(1, 1000);
  Prefetcher reader(source, sampler, 8, [](std::int64_t position) { return position + 32; });
  for (std::int64_t position = 0; position < 3200; position += 32)
    ASSERT_EQ(reader.at(position).labels, expected(sampler, position, 8));
  for (std::int64_t position : {5, 5, 37, 900, 69, 101})
    ASSERT_EQ(reader.at(position).labels, expected(sampler, position, 8));
}

TEST(Prefetcher, ReadsOnInAnotherOrder) {
  Told source;
  const Sampler sampler(1, 1000);
  Prefetcher reader(source, sampler, 8, [](std::int64_t position) { return position + 8; });
  for (std::int64_t position : {0, 8, 16}) ASSERT_EQ(reader.at(position).labels, expected(sampler, position, 8));
  reader.read_from(100, [](std::int64_t position) { return position + 50; });
  const auto deadline = Deadline::after(std::chrono::seconds(20));
  const int before = source.reads_;
  while (source.reads_ < before + 3 && !deadline.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double waited = reader.waited_seconds();
  for (std::int64_t position : {100, 150, 200, 250})
    ASSERT_EQ(reader.at(position).labels, expected(sampler, position, 8));
  EXPECT_LT(reader.waited_seconds() - waited, 10) << "they were read ahead";
}

TEST(Prefetcher, ReadsAheadAndNoFurther) {
  Told source;
  Prefetcher reader(
      source, Sampler(1, 1000), 4, [](std::int64_t position) { return position + 4; }, 3);
  reader.at(0);
  const auto deadline = Deadline::after(std::chrono::seconds(20));
  while (source.reads_ < 4 && !deadline.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(source.reads_, 4) << "the one asked for, and three more";
}

TEST(Prefetcher, TellsWhatReadingThrewAndGoesOn) {
  Told source;
  source.fails_ = true;
  const Sampler sampler(1, 1000);
  Prefetcher reader(source, sampler, 4, [](std::int64_t position) { return position + 4; });
  EXPECT_THAT(error_of<StorageError>([&] { reader.at(0); }), HasSubstr("a chunk is damaged"));
  EXPECT_EQ(reader.at(0).labels, expected(sampler, 0, 4));
}

TEST(Prefetcher, NamesTheSetThatIsTooSlow) {
  Told source;
  source.pause_ = std::chrono::milliseconds(300);
  Prefetcher reader(source, Sampler(1, 1000), 4, [](std::int64_t position) { return position + 4; });
  EXPECT_THAT(error_of<StorageError>([&] { reader.at(0, {.most = std::chrono::milliseconds(20)}); }),
              HasSubstr("reading 4 samples of \"told\" takes longer"));
  EXPECT_GE(reader.waited_seconds(), 0.02);
}

/// As "distdl worker" does where nobody watches it.
TEST(PrefetcherDeathTest, ARankThatWaitsForSamplesObeysAStopAndTheReaderThatHangsHoldsNoEnd) {
  const auto wait_and_stop = [] {
    const SignalsBlocked blocked;
    ::raise(SIGUSR1);
    Told source;
    source.pause_ = std::chrono::hours(1);
    Prefetcher reader(source, Sampler(1, 1000), 4, [](std::int64_t position) { return position + 4; });
    try {
      reader.at(0, {.after_stop = std::chrono::milliseconds(20)});
    } catch (const StorageError& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
  };
  EXPECT_EXIT(wait_and_stop(), ::testing::ExitedWithCode(75),
              "reading 4 samples of \"told\" takes longer than .* although the run was asked to stop.*\n"
              ".*the reader of \"told\" has not ended for 3 s: a file system does not answer");
}

}  // namespace
}  // namespace distdl::data
