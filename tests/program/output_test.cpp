// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include <distdl/base/errors.hpp>
#include <distdl/program/output_lines.hpp>
#include <distdl/program/patterns.hpp>

namespace distdl::program {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class Lines {
 public:
  void add(std::string_view bytes) {
    lines_.add(bytes, [this](std::string_view line, bool stays) { (stays ? kept : replaced).emplace_back(line); });
  }
  void finish() {
    lines_.finish([this](std::string_view line, bool) { kept.emplace_back(line); });
  }
  std::vector<std::string> kept, replaced;

 private:
  OutputLines lines_;
};

TEST(OutputLines, ComeInPieces) {
  Lines lines;
  for (const char* piece : {"on", "e\ntw", "o\n\nthr", "ee"}) lines.add(piece);
  EXPECT_THAT(lines.kept, ElementsAre("one", "two", ""));
  lines.finish();
  EXPECT_THAT(lines.kept, ElementsAre("one", "two", "", "three"));
}

TEST(OutputLines, OfAProgressBarTheLastVersionStays) {
  Lines lines;
  lines.add("\r 1%\r 2%\r 3%\n\rnext\r\n");
  EXPECT_THAT(lines.kept, ElementsAre(" 3%", "next"));
  EXPECT_THAT(lines.replaced, ElementsAre(" 1%", " 2%", "next"));
}

TEST(OutputLines, ALongLineBecomesSeveral) {
  Lines lines;
  lines.add(std::string(2 * OutputLines::kLongest + 3, 'x') + "\n");
  ASSERT_EQ(lines.kept.size(), 3U);
  EXPECT_EQ(lines.kept.front().size(), OutputLines::kLongest);
  EXPECT_EQ(lines.kept.back(), "xxx");
}

TEST(Patterns, FindStepsAndMetrics) {
  Options options;
  options.progress_pattern = R"(step (\d+)/(\d+))";
  options.metrics = {R"(loss=loss[=: ]+([-+.0-9eE]+))", R"(lr=lr ([0-9.]+))"};
  const Patterns patterns(options);
  const auto facts = patterns.look("epoch 1 step 12/400 loss: -1.5e-3, other");
  EXPECT_EQ(facts.step, 12);
  EXPECT_EQ(facts.steps, 400);
  EXPECT_THAT(facts.metrics, ElementsAre(Pair("loss", -1.5e-3)));
  EXPECT_EQ(patterns.look("step x/y").step, std::nullopt);
  EXPECT_EQ(patterns.look("step 99999999999999999999/1").step, std::nullopt);
  EXPECT_EQ(patterns.look(std::string(5000, ' ') + "step 1/2").step, std::nullopt) << "only the beginning counts";
  EXPECT_EQ(patterns.look(std::string(1 << 20, 's')).step, std::nullopt);
}

TEST(Patterns, ThatCannotBe) {
  const auto refusal = [](Options options) -> std::string {
    try {
      check(options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({.progress_pattern = "step"}), HasSubstr("no group"));
  EXPECT_THAT(refusal({.progress_pattern = "("}), HasSubstr("no regular expression"));
  EXPECT_THAT(refusal({.metrics = {"loss"}}), HasSubstr("NAME=EXPRESSION"));
  EXPECT_THAT(refusal({.metrics = {"=([0-9])"}}), HasSubstr("NAME=EXPRESSION"));
  EXPECT_THAT(refusal({.command = {""}}), HasSubstr("must begin with a program"));
  EXPECT_THAT(refusal({.container = {"apptainer"}}), HasSubstr("run.command is not"));
}
}  // namespace
}  // namespace distdl::program
