// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/optim/schedule.hpp>

namespace distdl::optim {
namespace {
/// Of the step after `done`, in a run of 104 steps of 256 samples.
double rate(const Options& options, std::int64_t done) {
  return learning_rate(options, Step(done), Step(104), 256);
}

TEST(LearningRate, WarmsUpInEverySchedule) {
  for (const char* schedule : {"constant", "cosine", "linear", "step"}) {
    Options options{.learning_rate = 1, .schedule = schedule, .warmup_steps = 4};
    EXPECT_DOUBLE_EQ(rate(options, 0), 0.25) << schedule;
    EXPECT_DOUBLE_EQ(rate(options, 2), 0.75) << schedule;
    EXPECT_DOUBLE_EQ(rate(options, 3), 1.0) << schedule;
    EXPECT_DOUBLE_EQ(rate(options, 4), 1.0) << schedule;
  }
}

TEST(LearningRate, StaysAtThePeakWhenConstant) {
  Options options{.learning_rate = 0.3, .schedule = "constant"};
  EXPECT_EQ(rate(options, 0), 0.3);
  EXPECT_EQ(rate(options, 103), 0.3);
}

TEST(LearningRate, FallsAsACosine) {
  Options options{.learning_rate = 1, .schedule = "cosine", .warmup_steps = 4};
  EXPECT_NEAR(rate(options, 29), 0.5 + std::sqrt(0.125), 1e-12);  // a quarter of the way
  EXPECT_NEAR(rate(options, 54), 0.5, 1e-12);
  EXPECT_GT(rate(options, 103), 0.0);
  EXPECT_DOUBLE_EQ(rate(options, 104), 0.0);
}

TEST(LearningRate, FallsAsALine) {
  Options options{.learning_rate = 2, .schedule = "linear", .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(rate(options, 29), 1.5);
  EXPECT_DOUBLE_EQ(rate(options, 54), 1.0);
  EXPECT_NEAR(rate(options, 103), 0.02, 1e-12);
  EXPECT_DOUBLE_EQ(rate(options, 104), 0.0);
}

TEST(LearningRate, EndsAtTheGivenShareOfThePeak) {
  for (const char* schedule : {"cosine", "linear"}) {
    Options options{.learning_rate = 2, .schedule = schedule, .final_rate_share = 0.1};
    EXPECT_DOUBLE_EQ(rate(options, 0), 2.0) << schedule;
    EXPECT_NEAR(rate(options, 52), 1.1, 1e-12) << schedule;
    EXPECT_DOUBLE_EQ(rate(options, 104), 0.2) << schedule;
  }
}

TEST(LearningRate, FallsInStepsAtHalfAndThreeQuarters) {
  Options options{.learning_rate = 1, .schedule = "step"};
  EXPECT_DOUBLE_EQ(rate(options, 51), 1.0);
  EXPECT_DOUBLE_EQ(rate(options, 52), 0.1);
  EXPECT_DOUBLE_EQ(rate(options, 77), 0.1);
  EXPECT_DOUBLE_EQ(rate(options, 78), 0.01);
}

TEST(LearningRate, FallsInStepsAtMilestones) {
  Options options{.learning_rate = 1, .schedule = "step", .milestones = {10, 11, 90}, .milestone_factor = 0.5};
  EXPECT_DOUBLE_EQ(rate(options, 9), 1.0);
  EXPECT_DOUBLE_EQ(rate(options, 10), 0.5);
  EXPECT_DOUBLE_EQ(rate(options, 11), 0.25);
  EXPECT_DOUBLE_EQ(rate(options, 89), 0.25);
  EXPECT_DOUBLE_EQ(rate(options, 90), 0.125);
}

TEST(LearningRate, AWarmupLongerThanTheRunIsNoTrouble) {
  Options options{.learning_rate = 1, .schedule = "cosine", .warmup_steps = 1000};
  EXPECT_DOUBLE_EQ(rate(options, 103), 0.104);
}

TEST(PeakRate, FollowsTheGlobalBatch) {
  Options options{.learning_rate = 0.1, .base_batch = 256};
  EXPECT_EQ(peak_rate(options, 8192), 0.1);
  options.scale_rate = "linear";
  EXPECT_DOUBLE_EQ(peak_rate(options, 8192), 3.2);
  EXPECT_DOUBLE_EQ(peak_rate(options, 64), 0.025);
  options.scale_rate = "sqrt";
  EXPECT_DOUBLE_EQ(peak_rate(options, 4096), 0.4);
  options.schedule = "linear";
  EXPECT_DOUBLE_EQ(learning_rate(options, Step(50), Step(100), 4096), 0.2);
}
}  // namespace
}  // namespace distdl::optim
