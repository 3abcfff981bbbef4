// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/observe/trace/log_merge.hpp>

namespace distdl::observe {
namespace {
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Logs : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("logs_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void append(const char* host, const std::string& text) const {
    std::ofstream(folder_ / (std::string(host) + ".log"), std::ios::app) << text;
  }
  std::vector<std::string> read(LogMerge& logs, bool all = false) const {
    std::vector<std::string> lines;
    logs.read(
        [&](const LogLine& line) {
          const bool has_time = !line.time.empty() && line.text.starts_with(line.time);
          lines.push_back(line.host + "|" + line.text.substr(has_time ? line.time.size() : 0));
        },
        all);
    return lines;
  }

  std::filesystem::path folder_;
};

TEST_F(Logs, OfAllNodesComeInTheOrderOfTime) {
  append("n1", "2026-03-01T12:00:01.5 info host=n1 rank=0 a\n  more of a\n2026-03-01T12:00:03.0 error c\n");
  append("n2", "2026-03-01T12:00:02.0 warning b\n");
  LogMerge logs(folder_);
  EXPECT_THAT(read(logs), ElementsAre("n1| info host=n1 rank=0 a", "n1|  more of a", "n2| warning b", "n1| error c"));
  EXPECT_THAT(read(logs), IsEmpty());
}

TEST_F(Logs, AreFollowed) {
  LogMerge logs(folder_ / "not there yet");
  EXPECT_THAT(read(logs), IsEmpty());
  LogMerge there(folder_);
  append("n1", "2026-03-01T12:00:01.5 info a\n2026-03-01T12:0");
  EXPECT_THAT(read(there), ElementsAre("n1| info a"));
  append("n1", "0:02.5 info b\n");
  append("n2", "2026-03-01T12:00:02.0 info c\nhalf");
  EXPECT_THAT(read(there), ElementsAre("n2| info c", "n1| info b"));
  EXPECT_THAT(read(there, true), ElementsAre("n2|half"));
}

/// More than the window of lines, and than a piece of a file.
TEST_F(Logs, AreMergedPieceByPiece) {
  constexpr int kLines = 60000;
  for (const char* host : {"n1", "n2"}) {
    std::string text;
    for (int i = *host == 'n' && host[1] == '1' ? 0 : 1; i < kLines; i += 2)
      text += fmt::format("2026-03-01T12:00:00.{:06} info host={} line {} of a log that is long\n", i ^ 2, host, i ^ 2);
    append(host, text);
  }
  append("n1", "the end");
  LogMerge logs(folder_);
  std::string last;
  int seen = 0;
  logs.read(
      [&](const LogLine& line) {
        ASSERT_LE(last, line.time) << "two lines of a file are out of order";
        last = line.time;
        ++seen;
      },
      true);
  EXPECT_EQ(seen, kLines + 1);
}

TEST_F(Logs, WithoutAnEndOfLineComeInParts) {
  append("n1", std::string(300 << 10, 'x'));
  LogMerge logs(folder_);
  std::size_t most = 0;
  logs.read([&](const LogLine& line) { most = std::max(most, line.text.size()); }, true);
  EXPECT_EQ(most, 64u << 10);
}

TEST_F(Logs, BeginNearTheEndIfAsked) {
  for (int i = 0; i < 1000; ++i)
    append("n1", fmt::format("2026-03-01T12:{:02}:{:02} info line {}\n", i / 60, i % 60, i));
  LogMerge logs(folder_);
  logs.skip_to_last(3);
  const auto lines = read(logs);
  EXPECT_LT(lines.size(), 200u);
  EXPECT_GE(lines.size(), 3u);
  EXPECT_THAT(lines.back(), testing::EndsWith("line 999"));
}

TEST(LogLines, HaveASeverityOfTheirOwnOrOfTheLineBefore) {
  const LogLine none;
  const auto error = parse_log_line("2026-03-01T12:00:00.1 error x", "n1", none);
  EXPECT_EQ(error.severity, Severity::error);
  EXPECT_EQ(error.time, "2026-03-01T12:00:00.1");
  EXPECT_EQ(parse_log_line("more", "n1", error).severity, Severity::error);
  EXPECT_EQ(parse_log_line("more", "n1", error).time, error.time);
  for (const char* text : {"", " ", "2026-03-01", "2026-03-01T12:00:00", "x 2026-03-01T12:00:00 error"})
    EXPECT_EQ(parse_log_line(text, "n1", none).severity, Severity::info) << text;
}

}  // namespace
}  // namespace distdl::observe
