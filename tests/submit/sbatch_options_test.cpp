// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/submit/sbatch_options.hpp>

namespace distdl::submit {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> words_of(const std::vector<SbatchOption>& options) {
  std::vector<std::string> words;
  for (const auto& option : options) words.push_back(to_word(option));
  return words;
}

std::vector<std::string> parsed(const std::vector<std::string>& words) {
  return words_of(parse_sbatch_words(words));
}

std::string error_of(const std::vector<std::string>& words) {
  try {
    parse_sbatch_words(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(SbatchOptions, AreReadAsSbatchReadsThem) {
  EXPECT_THAT(parsed({"--nodes=8", "--time", "12:00:00", "-N4", "-p", "batch", "-HQ", "--exclusive", "--nice=3"}),
              ElementsAre("--nodes=8", "--time=12:00:00", "--nodes=4", "--partition=batch", "--hold", "--quiet",
                          "--exclusive", "--nice=3"));
  EXPECT_THAT(parsed({"--parti=x", "--comment=two words", "--export="}),
              ElementsAre("--partition=x", "--comment='two words'", "--export=''"));
  EXPECT_THAT(parsed({"--future-option=3"}), ElementsAre("--future-option=3"));
  EXPECT_FALSE(parse_sbatch_words({"--future-option"})[0].is_known);
  EXPECT_TRUE(parse_sbatch_words({"--nodes=1"})[0].is_known);
}

TEST(SbatchOptions, AreRefusedWithAHint) {
  EXPECT_THAT(error_of({"job.toml"}), HasSubstr("\"job.toml\" is no option of sbatch; write options as --nodes=8"));
  EXPECT_THAT(error_of({"--nodes"}), HasSubstr("option \"--nodes\" lacks its value; write it as --nodes=VALUE"));
  EXPECT_THAT(error_of({"--nodes", "--time=3"}), HasSubstr("lacks its value"));
  EXPECT_THAT(error_of({"--requeue=yes"}), HasSubstr("takes no value"));
  EXPECT_THAT(error_of({"-Z3"}), HasSubstr("no option \"-Z\""));
  EXPECT_THAT(error_of({"-"}), HasSubstr("no option"));
  EXPECT_THAT(error_of({""}), HasSubstr("no option"));
  EXPECT_EQ(nearest_sbatch_option("partitions"), "partition");
}

TEST(SbatchOptions, LastOneCountsAndOppositesExcludeEachOther) {
  SbatchOptions options;
  for (const auto& option : parse_sbatch_words({"--nodes=2", "--requeue", "--mem=4G", "--nodes=3-4"}))
    options.set(option);
  EXPECT_THAT(words_of(options.all()), ElementsAre("--nodes=3-4", "--requeue", "--mem=4G"));
  options.set(SbatchOption{"no-requeue"});
  options.set("mem-per-cpu", "1G");
  EXPECT_THAT(words_of(options.all()), ElementsAre("--nodes=3-4", "--no-requeue", "--mem-per-cpu=1G"));
  EXPECT_EQ(options.value("nodes"), "3-4");
  EXPECT_FALSE(options.number("nodes"));
  EXPECT_EQ(options.value("time"), "");
  options.set("nodes", "8");
  EXPECT_EQ(options.number("nodes"), 8);
}

TEST(Words, AreDividedAsByAShell) {
  EXPECT_THAT(split_words(R"( --a="b c"  'd e'f \"g "h \"i" # no more)"),
              ElementsAre("--a=b c", "d ef", "\"g", "h \"i"));
  EXPECT_THAT(split_words("a#b ''"), ElementsAre("a#b", ""));
  EXPECT_THAT(split_words("  \t"), ElementsAre());
  for (const char* word : {"plain", "two words", "it's", "$HOME", "", "a\nb", "a\\b", "*"})
    EXPECT_THAT(split_words(quote(word)), ElementsAre(word));
}

TEST(Times, AreThoseOfSbatch) {
  EXPECT_EQ(seconds_of_time("90"), 5400);
  EXPECT_EQ(seconds_of_time("10:30"), 630);
  EXPECT_EQ(seconds_of_time("1:00:05"), 3605);
  EXPECT_EQ(seconds_of_time("1-12"), 36 * 3600);
  EXPECT_EQ(seconds_of_time("1-12:30"), 36 * 3600 + 1800);
  EXPECT_EQ(seconds_of_time("1-00:00:01"), 86401);
  for (const char* text : {"", "UNLIMITED", "1:2:3:4", "-1", "1-", "a", "1:", "99999999999"})
    EXPECT_FALSE(seconds_of_time(text)) << text;
}

TEST(SbatchOptions, TellMemory) {
  constexpr std::uint64_t kMebibyte = 1 << 20;
  EXPECT_EQ(bytes_of_memory("4000"), 4000 * kMebibyte);
  EXPECT_EQ(bytes_of_memory("4000M"), 4000 * kMebibyte);
  EXPECT_EQ(bytes_of_memory("512K"), kMebibyte / 2);
  EXPECT_EQ(bytes_of_memory("64G"), 65536 * kMebibyte);
  EXPECT_EQ(bytes_of_memory("2T"), 2 * kMebibyte * kMebibyte);
  for (const char* text : {"", "0", "M", "-1G", "1.5G", "all", "1P", "999999999T", "99999999999999999999"})
    EXPECT_FALSE(bytes_of_memory(text)) << text;
}

}  // namespace
}  // namespace distdl::submit
