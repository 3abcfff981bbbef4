// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <gtest/gtest.h>

#include <distdl/forecast/step_time.hpp>

namespace distdl::forecast {
namespace {
/// Ten buckets of a hundred floats each, which become final one after the other during a second.
StepPlan ten_buckets(int ranks, int microbatches, double sum_seconds) {
  StepPlan plan;
  plan.microbatches.assign(static_cast<std::size_t>(ranks), microbatches);
  for (std::size_t end = 1000; end > 0; end -= 100) plan.buckets.push_back({end - 100, end});
  plan.sum_seconds.assign(10, sum_seconds);
  plan.floats = 1000;
  return plan;
}
RankWork even_work() {
  RankWork work{.forward = 0.5, .backward = 1};
  for (std::size_t i = 1; i <= 10; ++i) work.finals.push_back({1000 - 100 * i, 0.1 * static_cast<double>(i)});
  return work;
}

TEST(SimulateSteps, OneRankComputesAndUpdates) {
  RankWork work{.forward = 0.5, .backward = 1, .finals = {}, .add = 0.25, .update = 0.5, .load = 0.125, .rest = 0.0625};
  StepPlan plan{.microbatches = {3}, .buckets = {{0, 1000}}, .sum_seconds = {0}, .floats = 1000, .stolen_seconds = {}};
  const auto time = simulate_steps(work, plan, 3, 1);
  EXPECT_DOUBLE_EQ(time.seconds, 3 * 1.5 + 2 * 0.25 + 0.5 + 0.125 + 0.0625);
  EXPECT_DOUBLE_EQ(time.compute, 3 * 1.5 + 2 * 0.25);
  EXPECT_EQ(time.waited, 0);
}

TEST(SimulateSteps, ASingleBucketHidesNothing) {
  StepPlan plan{
      .microbatches = {2, 2}, .buckets = {{0, 1000}}, .sum_seconds = {0.75}, .floats = 1000, .stolen_seconds = {}};
  const auto time = simulate_steps(even_work(), plan, 1, 1);
  EXPECT_DOUBLE_EQ(time.seconds, 2 * 1.5 + 0.75);
  EXPECT_DOUBLE_EQ(time.waited, 0.75);
}

TEST(SimulateSteps, ShortSumsAreHiddenButTheLast) {
  const auto time = simulate_steps(even_work(), ten_buckets(4, 2, 0.05), 1, 1);
  EXPECT_NEAR(time.seconds, 2 * 1.5 + 0.05, 1e-9);
}

TEST(WithGathers, ShortGathersAreHiddenButTheFirst) {
  const auto plan = ten_buckets(1, 1, 0);
  const auto work = with_gathers(even_work(), plan.buckets, std::vector<double>(10, 0.02));
  EXPECT_NEAR(work.forward, 0.5 + 0.02, 1e-9);
  EXPECT_NEAR(work.backward, 1, 1e-9);
  EXPECT_NEAR(final_after(work, 500), 0.5, 1e-9);
}

TEST(WithGathers, LongGathersAreWaitedFor) {
  const auto plan = ten_buckets(1, 1, 0);
  const auto work = with_gathers(even_work(), plan.buckets, std::vector<double>(10, 0.5));
  EXPECT_NEAR(work.forward, 10 * 0.5 + 0.05, 1e-9);
  EXPECT_NEAR(work.backward, 9 * 0.5 + 0.1, 1e-9);  // what the forward pass read last is there
  EXPECT_NEAR(final_after(work, 900), 0.1, 1e-9);
  EXPECT_NEAR(final_after(work, 800), 0.6, 1e-9);
}

TEST(SimulateSteps, LongSumsBeginWithTheFirstBucket) {
  const auto time = simulate_steps(even_work(), ten_buckets(4, 2, 0.5), 1, 1);
  EXPECT_NEAR(time.seconds, 1.5 + 0.5 + 0.1 + 10 * 0.5, 1e-9);  // the second microbatch's first bucket, then one by one
  EXPECT_NEAR(time.sum, 5, 1e-9);
}

TEST(SimulateSteps, TheSlowestRankIsWaitedFor) {
  auto plan = ten_buckets(2, 1, 0.05);
  plan.microbatches = {1, 4};
  EXPECT_NEAR(simulate_steps(even_work(), plan, 1, 1).seconds, 4 * 1.5 + 0.05, 1e-9);
}

TEST(SimulateSteps, UpdatesOfSummedBucketsFillTheWait) {
  auto work = even_work();
  work.update = 1;
  const auto in_parts = simulate_steps(work, ten_buckets(2, 1, 0.2), 1, 1).seconds;
  auto plan = ten_buckets(2, 1, 0.2);
  plan.in_parts = false;
  EXPECT_NEAR(simulate_steps(work, plan, 1, 1).seconds, 0.5 + 0.1 + 10 * 0.2 + 1, 1e-9);
  EXPECT_NEAR(in_parts, 0.5 + 0.1 + 10 * 0.2 + 0.1, 1e-9);
}

TEST(SimulateSteps, ShardsUpdateLessAndGather) {
  auto work = even_work();
  work.update = 1;
  StepPlan plan{.microbatches = {1, 1},
                .buckets = {{0, 1000}},
                .sum_seconds = {0.5},
                .floats = 1000,
                .stolen_seconds = {},
                .updated_share = 0.5,
                .gather_seconds = {0.25}};
  EXPECT_DOUBLE_EQ(simulate_steps(work, plan, 1, 1).seconds, 1.5 + 0.5 + 0.5 + 0.25);
}

TEST(SimulateSteps, GathersFollowTheSumsInTheirThread) {
  auto plan = ten_buckets(2, 1, 0.05);
  plan.gather_seconds.assign(10, 0.04);
  // The last bucket's sum, which two gathers precede at the most, and then three gathers.
  EXPECT_NEAR(simulate_steps(even_work(), plan, 1, 1).seconds, 1.5 + 0.05 + 3 * 0.04, 0.041);
  plan.in_parts = false;  // all gathers after all sums
  plan.lag = 10;
  EXPECT_NEAR(simulate_steps(even_work(), plan, 1, 1).seconds, 1.5 + 0.05 + 10 * 0.04, 1e-9);
}

TEST(SimulateSteps, SumsThatTakeTheProcessorDelayTheBackwardPass) {
  auto plan = ten_buckets(2, 1, 0.05);
  plan.stolen_seconds.assign(10, 0.02);
  const auto time = simulate_steps(even_work(), plan, 1, 1);
  EXPECT_NEAR(time.seconds, 1.5 + 9 * 0.02 + 0.05, 0.021);
}

TEST(SimulateSteps, ManyRanksWaitForTheSlowestOfThemAndSeedsRepeat) {
  auto work = even_work();
  work.spread = 0.02;
  const auto seconds = [&](int ranks, std::uint64_t seed) {
    return simulate_steps(work, ten_buckets(ranks, 1, 0.01), 5, seed).seconds;
  };
  EXPECT_GT(seconds(1000, 1), 1.5 * (1 + 2.5 * 0.02));
  EXPECT_LT(seconds(1000, 1), 1.5 * (1 + 4.5 * 0.02) + 0.01);
  EXPECT_EQ(seconds(100, 7), seconds(100, 7));
  EXPECT_NE(seconds(100, 7), seconds(100, 8));
}

TEST(SimulateSteps, TenThousandRanksTakeNoTime) {
  const auto begin = std::chrono::steady_clock::now();
  simulate_steps(even_work(), ten_buckets(10000, 1, 0.01), 5, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}
}  // namespace
}  // namespace distdl::forecast
