// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <distdl/forecast/learned.hpp>

namespace distdl::forecast {
namespace {
RunFeatures run_of(double ranks) {
  return {.ranks = ranks, .flops = 1e9, .parameters = 1e6, .microbatches = 24 / ranks};
}

TEST(Learned, FindsTheFactorOfACluster) {
  std::vector<LearnedRun> runs;
  for (double ranks : {1, 2, 4, 8}) runs.push_back({run_of(ranks), 2, 3});
  const auto learned = learn(runs, run_of(3));
  EXPECT_NEAR(learned.factor, 1.5, 1e-12);
  EXPECT_NEAR(learned.error, 0, 1e-12);
  EXPECT_NEAR(learned.forecast_error, 1.0 / 3, 1e-12);
  EXPECT_TRUE(learned.is_used());
  EXPECT_EQ(learned.runs, 4u);
}

TEST(Learned, FindsWhatGrowsWithTheRanks) {
  std::vector<LearnedRun> runs;
  for (double ranks : {1, 2, 3, 4, 6, 8, 12}) runs.push_back({run_of(ranks), 1, std::sqrt(ranks)});
  const auto learned = learn(runs, run_of(5));
  EXPECT_NEAR(learned.factor, std::sqrt(5), 0.1);
  EXPECT_LT(learned.error, 0.3 * learned.forecast_error);
  EXPECT_GE(learned.largest_error, learned.error);
  EXPECT_LE(learn(runs, run_of(1000)).factor, 1.1 * std::sqrt(12)) << "it does not go on beyond the runs";
}

TEST(Learned, IsNotUsedWhereForecastsAreBetter) {
  std::vector<LearnedRun> runs;
  for (double error : {1.02, 0.98, 1.05, 0.97}) runs.push_back({run_of(2), 1, error});
  const auto learned = learn(runs, run_of(2));
  EXPECT_GT(learned.error, learned.forecast_error);
  EXPECT_FALSE(learned.is_used());
}

TEST(Learned, TooFewRunsTeachNothing) {
  const std::vector<LearnedRun> runs(Learned::kLeastRuns - 1, {run_of(2), 1, 2});
  const auto learned = learn(runs, run_of(2));
  EXPECT_FALSE(learned.is_used());
  EXPECT_EQ(learned.factor, 1);
}
}  // namespace
}  // namespace distdl::forecast
