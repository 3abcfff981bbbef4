// SPDX-License-Identifier: Apache-2.0
// From the rows of nodes to a predictor, and from its alarms to checkpoints.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/observe/health/failure_examples.hpp>
#include <distdl/observe/health/failure_watch.hpp>
#include <distdl/observe/run/run_summary.hpp>

namespace distdl::observe {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
constexpr double kBegin = 1.7e9;

class Failures : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("failures_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / kHealthFolder);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void add_row(const std::string& host, double time, std::int64_t errors) const {
    health::NodeHealth health;
    health.corrected_errors = errors;
    std::ofstream(folder_ / kHealthFolder / (host + ".jsonl"), std::ios::app) << to_text({host, time, health}) << "\n";
  }
  void add_to_journal(const std::string& row) const {
    std::ofstream(folder_ / "journal.jsonl", std::ios::app) << row << "\n";
  }
  /// Memory errors are the sign of a failure.
  static health::FailurePredictor predictor() {
    health::FailurePredictor predictor;
    predictor.weights[6] = 10;
    predictor.bias = -5;
    return predictor;
  }
  std::filesystem::path folder_;
};

TEST_F(Failures, AreLearntFromTheRecordsOfARun) {
  // Two nodes for three hours; n2 is lost after two of them, in whose last half hour it has memory errors.
  std::int64_t errors = 0;
  for (int i = 0; i < 360; ++i) {
    add_row("n1", kBegin + 30 * i, 7);
    if (i >= 180) errors += 2;
    if (i < 240) add_row("n2", kBegin + 30 * i, errors);
  }
  EXPECT_EQ(quality_of(predictor(), read_examples(folder_)).precision, 0) << "the journal tells of no loss";
  add_to_journal(R"({"event":"node_lost","time":1700007200})");
  const auto examples = read_examples(folder_);
  EXPECT_EQ(examples.size(), 359u + 239u);
  EXPECT_EQ(std::count_if(examples.begin(), examples.end(), [](const auto& each) { return each.has_failed; }), 60);
  const auto learnt = health::train_predictor(examples);
  EXPECT_GT(quality_of(learnt, examples).precision, 0.9);
  EXPECT_GT(quality_of(learnt, examples).recall, 0.9);

  std::ofstream(folder_ / "predictor.json") << to_text(learnt);
  const auto read = read_predictor(folder_ / "predictor.json");
  EXPECT_EQ(read.weights, learnt.weights);
  EXPECT_EQ(read.bias, learnt.bias);
  EXPECT_EQ(read.threshold, learnt.threshold);
}

TEST_F(Failures, OfALongFileTheNewestPartIsRead) {
  const auto file = folder_ / kHealthFolder / "n1.jsonl";
  add_row("n1", kBegin, 0);
  std::filesystem::resize_file(file, (64 << 20) + 10);  // takes no room on the disk
  std::ofstream(file, std::ios::app) << "\n";
  for (int i = 1; i < 4; ++i) add_row("n1", kBegin + 30 * i, 0);
  EXPECT_EQ(read_examples(folder_).size(), 2u);
}

TEST_F(Failures, OfAPredictorThatIsNoneAreToldByName) {
  for (const char* text : {"", "[]", "{\"weights\":{}}", "{\"weights\":{\"slowdown\":1},\"bias\":0,\"threshold\":1}"}) {
    std::ofstream(folder_ / "predictor.json") << text;
    try {
      read_predictor(folder_ / "predictor.json");
      ADD_FAILURE() << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("predictor.json"));
    }
  }
}

TEST_F(Failures, ThatAreLikelyAskForCheckpoints) {
  FailureWatch watch(folder_, predictor(), std::chrono::hours(1));
  FailureWatch of_agent(folder_, predictor(), std::chrono::hours(1), "n2"),
      of_other(folder_, predictor(), std::chrono::hours(1), "n1");
  const auto look = [&](double time, std::int64_t errors) {
    add_row("n1", kBegin + time, 0);
    add_row("n2", kBegin + time, errors);
    watch.look();
    watch.look();  // which is nothing new
    of_agent.look();
    of_other.look();
  };
  look(0, 100);
  look(30, 200);
  EXPECT_FALSE(watch.wants_save()) << "one alarm may be wrong";
  look(60, 300);
  EXPECT_THAT(watch.nodes_at_risk(), ElementsAre("n2"));
  EXPECT_THAT(of_agent.nodes_at_risk(), ElementsAre("n2"));
  EXPECT_THAT(of_other.nodes_at_risk(), IsEmpty());
  EXPECT_TRUE(watch.wants_save());
  EXPECT_FALSE(watch.wants_save()) << "not again within the hour";
  EXPECT_THAT(summarize_run(folder_).at_risk, ElementsAre("n2 (corrected_errors)"));
  look(90, 300);
  EXPECT_THAT(watch.nodes_at_risk(), IsEmpty()) << "it is well again";
}

TEST_F(Failures, OfSlowRanksAreSeenInTheJournal) {
  add_to_journal(
      R"({"event":"shares","time":1,"shares":[4,4,4],"microbatch_seconds":[0.5,2,0.5],"hosts":["n1","n2","n3"]})");
  const auto journal = read_journal(folder_);
  ASSERT_EQ(journal.size(), 1u);
  const auto& shares = std::get<records::SharesKnown>(journal[0].record);
  EXPECT_DOUBLE_EQ(slowdown_of(shares, "n2"), 4);
  EXPECT_DOUBLE_EQ(slowdown_of(shares, "n3"), 1);
  EXPECT_DOUBLE_EQ(slowdown_of(shares, "another"), 1);
}
}  // namespace
}  // namespace distdl::observe
