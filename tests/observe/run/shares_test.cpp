// SPDX-License-Identifier: Apache-2.0
// How the ranks share the microbatches, from the event to the summary of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/observe/journal.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/observe/run/run_summary.hpp>
#include <distdl/records/row_text.hpp>

namespace distdl::observe {
namespace {
using ::testing::ElementsAre;

class Shares : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("shares_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(Shares, AreThoseOfTheLastStart) {
  RunFolder records(folder_, 0);
  EXPECT_EQ(read_microbatch_seconds(folder_, 8), 0);
  records.on(records::Started{{}, Step(100), 3, 50, 5, "reference"});
  records.on(records::SharesKnown{Step(12), false, {4, 4, 4}, {0.5, 1.5, 0.5}, {"n1", "n2", "n3"}});
  records.on(records::SharesKnown{Step(16), true, {5, 2, 5}, {0.5, 1.5, 0.5}, {"n1", "n2", "n3"}});
  const auto summary = summarize_run(folder_);
  EXPECT_EQ(summary.shares.moves, 1);
  EXPECT_THAT(summary.shares.shares, ElementsAre(5, 2, 5));
  EXPECT_THAT(summary.shares.microbatch_seconds, ElementsAre(0.5, 1.5, 0.5));
  EXPECT_THAT(summary.shares.hosts, ElementsAre("n1", "n2", "n3"));
  EXPECT_EQ(summary.phase, Phase::training);
  records.on(records::Started{Step(40), Step(100), 2, 50, 5, "reference"});
  EXPECT_TRUE(summarize_run(folder_).shares.shares.empty()) << "which begins with equal ones";
}

TEST_F(Shares, OfServersAreApart) {
  RunFolder records(folder_, 0);
  records.on(records::Started{{}, Step(100), 3, 50, 5, "reference"});
  records.on(records::RangesKnown{Step(12), false, {5'000'000'000, 4}, {1e-9, 2e-9}, {"n1", "n2"}});
  records.on(records::RangesKnown{Step(16), true, {6'000'000'000, 2}, {1e-9, 2e-9}, {"n1", "n2"}, "why"});
  const auto summary = summarize_run(folder_);
  EXPECT_TRUE(summary.shares.shares.empty());
  EXPECT_EQ(summary.ranges.moves, 1);
  EXPECT_THAT(summary.ranges.shares, ElementsAre(6'000'000'000, 2));
  EXPECT_THAT(summary.ranges.microbatch_seconds, ElementsAre(1e-9, 2e-9));
  EXPECT_EQ(summary.ranges.went_back, "why");
  records.on(records::Started{Step(40), Step(100), 2, 50, 5, "reference"});
  EXPECT_TRUE(summarize_run(folder_).ranges.shares.empty());
}

TEST_F(Shares, ThatWentBackTellWhy) {
  RunFolder records(folder_, 0);
  records.on(records::Started{{}, Step(100), 2, 50, 5, "reference"});
  const auto tell = [&](int step, std::vector<int> shares, const std::string& why) {
    records.on(records::SharesKnown{Step(step), true, std::move(shares), {0.5, 1.5}, {"n1", "n2"}, 8, false, why});
  };
  tell(12, {5, 3}, "");
  EXPECT_EQ(summarize_run(folder_).shares.back, 0);
  tell(20, {4, 4}, "a step took 3 s after the move, and 2 s before");
  tell(30, {5, 3}, "");
  const auto shares = summarize_run(folder_).shares;
  EXPECT_EQ(shares.moves, 3);
  EXPECT_EQ(shares.back, 1);
  EXPECT_EQ(shares.went_back, "a step took 3 s after the move, and 2 s before");
}

TEST_F(Shares, AndHowManyMeasurementsOfSuspendedRanksCountForNothing) {
  RunFolder records(folder_, 0);
  records.on(records::Started{{}, Step(100), 2, 50, 5, "reference"});
  EXPECT_TRUE(summarize_run(folder_).disturbed.measurements.empty());
  records.on(records::RanksDisturbed{Step(12), {0, 1}, {"n1", "n2"}});
  records.on(records::RanksDisturbed{Step(20), {0, 7}, {"n1", "n2"}});
  const auto disturbed = summarize_run(folder_).disturbed;
  EXPECT_THAT(disturbed.measurements, ElementsAre(0, 7));
  EXPECT_THAT(disturbed.hosts, ElementsAre("n1", "n2"));
  const auto row = records::parse_row(R"({"event":"disturbed","measurements":[1,2],"hosts":["a"]})").value();
  const auto& damaged = std::get<records::RanksDisturbed>(row.record);
  EXPECT_TRUE(damaged.measurements.empty() && damaged.hosts.empty());
  records.on(records::Started{Step(40), Step(100), 2, 50, 5, "reference"});
  EXPECT_TRUE(summarize_run(folder_).disturbed.measurements.empty()) << "of an earlier start";
}

TEST_F(Shares, TellWhatAMicrobatchTakesThatKeepsAllActivations) {
  RunFolder records(folder_, 0);
  const auto tell = [&](double seconds, std::int64_t samples, bool recomputes) {
    records.on(records::SharesKnown{Step(12), false, {4, 4}, {seconds, seconds}, {"n1", "n2"}, samples, recomputes});
  };
  tell(0.5, 8, true);
  EXPECT_EQ(read_microbatch_seconds(folder_, 8), 0) << "blocks are computed again";
  tell(0.25, 4, false);
  EXPECT_EQ(read_microbatch_seconds(folder_, 8), 0) << "of other microbatches";
  RecordWriter(folder_ / "journal.jsonl")
      .append(R"({"event":"shares","shares":[4,4],"microbatch_seconds":[2,2],"hosts":["n1","n2"]})");
  EXPECT_EQ(read_microbatch_seconds(folder_, 8), 2) << "older versions told no more";
  tell(0.75, 8, false);
  tell(0.5, 8, true);
  EXPECT_EQ(read_microbatch_seconds(folder_, 8), 0.75);
}

TEST_F(Shares, AndTheNewestEvaluationIsFoundFarBack) {
  std::filesystem::create_directories(folder_);
  EXPECT_FALSE(find_evaluation(folder_));
  RecordWriter metrics(folder_ / "metrics.jsonl");
  metrics.append(R"({"step":3,"time":9,"validation_loss":0.25,"validation_accuracy":0.5})");
  const std::string row = R"({"step":4,"time":10,"loss":0.5,"epoch":0.1,"learning_rate":0.001,"accuracy":0.5})";
  for (int i = 0; i < 20000; ++i) metrics.append(row);
  EXPECT_FALSE(summarize_run(folder_).evaluation) << "which reads the last rows only";
  const auto evaluation = find_evaluation(folder_);
  ASSERT_TRUE(evaluation);
  EXPECT_EQ(evaluation->step, Step(3));
  EXPECT_EQ(evaluation->accuracy, 0.5);
}

TEST_F(Shares, OfADamagedRowCountForNothing) {
  for (const char* row : {R"({"event":"shares","shares":[1,2],"microbatch_seconds":[0.1],"hosts":["a","b"]})",
                          R"({"event":"shares","shares":[1,-2],"microbatch_seconds":[1,1],"hosts":["a","b"]})",
                          R"({"event":"shares","shares":[1,2],"microbatch_seconds":[1,"x"],"hosts":["a","b"]})",
                          R"({"event":"shares","shares":[1,2],"microbatch_seconds":[1,-1],"hosts":["a","b"]})",
                          R"({"event":"shares","shares":[1,2],"microbatch_seconds":[1,1],"hosts":["a",7]})",
                          R"({"event":"shares","shares":{},"microbatch_seconds":3,"hosts":null})"}) {
    const auto read = records::parse_row(row).value();
    const auto& shares = std::get<records::SharesKnown>(read.record);
    EXPECT_TRUE(shares.shares.empty() && shares.hosts.empty() && shares.microbatch_seconds.empty()) << row;
  }
}
}  // namespace
}  // namespace distdl::observe
