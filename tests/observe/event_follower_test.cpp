// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/observe/event_follower.hpp>

namespace distdl::observe {
namespace {
using testing::ElementsAre;

std::string metrics_row(int step) {
  return fmt::format(R"({{"time":{},"step":{},"loss":0.5,"accuracy":0.75,"samples_per_s":100}})", 1000 + step, step) +
         "\n";
}

std::string evaluation_row(int step) {
  return fmt::format(R"({{"time":{},"step":{},"validation_loss":0.25,"validation_accuracy":0.9}})", 1000 + step, step) +
         "\n";
}

class Follower : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void append(const char* name, const std::string& text) const { std::ofstream(folder_ / name, std::ios::app) << text; }
  static std::vector<std::int64_t> steps(const std::vector<records::Row>& rows) {
    std::vector<std::int64_t> steps;
    for (const auto& row : rows) steps.push_back(step_of(row.record)->value);
    return steps;
  }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("follower_" + std::to_string(::getpid()));
};

TEST_F(Follower, TellsOfRowsAsTheyCome) {
  EventFollower follower(folder_);
  EXPECT_TRUE(follower.poll().metrics.empty()) << "there is no file yet";
  append("metrics.jsonl", metrics_row(1) + evaluation_row(1));
  append("journal.jsonl", R"({"event":"started","time":5})"
                          "\nno row\n");
  auto news = follower.poll();
  EXPECT_THAT(steps(news.metrics), ElementsAre(1, 1));
  EXPECT_TRUE(news.metrics[0].is<records::StepDone>());
  EXPECT_EQ(news.metrics[1].as<records::Evaluated>()->accuracy, 0.9);
  ASSERT_EQ(news.journal.size(), 1u);
  EXPECT_TRUE(news.journal[0].is<records::Started>());
  EXPECT_FALSE(news.begins_again);
  EXPECT_TRUE(follower.poll().metrics.empty());
}

TEST_F(Follower, WaitsForTheEndOfALine) {
  EventFollower follower(folder_);
  const auto row = metrics_row(1);
  append("metrics.jsonl", row.substr(0, 20));
  EXPECT_TRUE(follower.poll().metrics.empty());
  append("metrics.jsonl", row.substr(20));
  EXPECT_THAT(steps(follower.poll().metrics), ElementsAre(1));
}

TEST_F(Follower, PassesOverATornLineThatWasCompleted) {
  EventFollower follower(folder_);
  append("metrics.jsonl", metrics_row(1) + metrics_row(2).substr(0, 20) + "\n" + metrics_row(3));
  EXPECT_THAT(steps(follower.poll().metrics), ElementsAre(1, 3));
}

TEST_F(Follower, BeginsAgainWithAFileThatWasReplacedOrCut) {
  EventFollower follower(folder_);
  append("metrics.jsonl", metrics_row(1) + metrics_row(2));
  append("journal.jsonl", "{\"event\":\"started\"}\n");
  follower.poll();
  append("new", metrics_row(7) + metrics_row(8) + metrics_row(9));
  std::filesystem::rename(folder_ / "new", folder_ / "metrics.jsonl");
  auto news = follower.poll();
  EXPECT_TRUE(news.begins_again);
  EXPECT_THAT(steps(news.metrics), ElementsAre(7, 8, 9));
  EXPECT_EQ(news.journal.size(), 1u);
  std::filesystem::resize_file(folder_ / "metrics.jsonl", metrics_row(7).size());
  news = follower.poll();
  EXPECT_TRUE(news.begins_again);
  EXPECT_THAT(steps(news.metrics), ElementsAre(7));
}

TEST_F(Follower, SamplesALongFileAndFindsItsEvaluationsLater) {
  constexpr int kRows = 50'000;
  std::string text;
  for (int step = 1; step <= kRows; ++step)
    text += metrics_row(step) + (step % 10'000 == 5 ? evaluation_row(step) : "");
  append("metrics.jsonl", text);
  EventFollower follower(folder_, 64 << 10);
  const auto news = follower.poll();
  EXPECT_LT(news.metrics.size(), 3000u);
  EXPECT_GT(news.metrics.size(), 1024u);
  const auto found = steps(news.metrics);
  EXPECT_LT(found.front(), 10);
  EXPECT_EQ(found.back(), kRows);
  EXPECT_TRUE(std::ranges::is_sorted(found));
  EXPECT_THAT(steps(news.evaluations), ElementsAre(5, 10'005, 20'005, 30'005, 40'005));
  EXPECT_TRUE(follower.poll().evaluations.empty()) << "each one once";
}

TEST_F(Follower, ReadsTheEndOfAVeryLongJournal) {
  append("journal.jsonl", "{\"event\":\"submitted\"}\n");
  std::filesystem::resize_file(folder_ / "journal.jsonl", std::uint64_t{1} << 40);  // a hole
  append("journal.jsonl", "\n{\"event\":\"started\"}\n");
  EventFollower follower(folder_);
  const auto journal = follower.poll().journal;
  ASSERT_EQ(journal.size(), 1u);
  EXPECT_TRUE(journal[0].is<records::Started>());
  append("journal.jsonl", "{\"event\":\"finished\"}\n");
  EXPECT_EQ(follower.poll().journal.size(), 1u);
}

TEST_F(Follower, SurvivesLinesOfAnyKind) {
  EventFollower follower(folder_);
  append("metrics.jsonl", std::string(200'000, 'x') + "\n[]\n\n{\"step\":-1}\n{\"step\":1e300}\n{\"step\":null}\n" +
                              "{\"step\":3,\"loss\":\"high\",\"time\":-5}\n\xff\xfe\n" + metrics_row(4));
  const auto rows = follower.poll().metrics;
  EXPECT_THAT(steps(rows), ElementsAre(3, 4));
  EXPECT_FALSE(rows[0].as<records::StepDone>()->loss);
  EXPECT_EQ(rows[0].time, 0);
  EXPECT_FALSE(rows[0].start);
  EXPECT_EQ(records::parse_row("{\"step\":3,\"start\":2}")->start, 2);
}

}  // namespace
}  // namespace distdl::observe
