// SPDX-License-Identifier: Apache-2.0
// Runs whose activations have 16 bits.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/train/state/loss_scale.hpp>

namespace distdl::train {
namespace {
TEST(LossScale, HalvesAtAnOverflowAndDoublesAfterManyGoodSteps) {
  LossScale scale = LossScale::start(tensor::DataType::float16);
  EXPECT_EQ(scale.value(), 65536);
  scale.step_done(false);
  EXPECT_EQ(scale.value(), 32768);
  for (std::int64_t i = 0; i < LossScale::kPatience - 1; ++i) scale.step_done(true);
  EXPECT_EQ(scale.value(), 32768);
  scale.step_done(true);
  EXPECT_EQ(scale.value(), 65536);
  EXPECT_EQ(scale.good_steps, 0);
}

TEST(LossScale, CountsGoodStepsAnewAfterAnOverflow) {
  LossScale scale = LossScale::start(tensor::DataType::float16);
  for (std::int64_t i = 0; i < LossScale::kPatience - 1; ++i) scale.step_done(true);
  scale.step_done(false);
  scale.step_done(true);
  EXPECT_EQ(scale.value(), 32768);
}

TEST(LossScale, SaysWhenNothingIsLeftToHalve) {
  LossScale scale = LossScale::start(tensor::DataType::float16);
  EXPECT_THROW(for (int i = 0; i < 100; ++i) scale.step_done(false), ConfigError);
  EXPECT_GT(scale.value(), 0);
}

TEST(LossScale, IsOneForOtherTypes) {
  EXPECT_EQ(LossScale::start(tensor::DataType::bfloat16).value(), 1);
  EXPECT_EQ(LossScale::start(tensor::DataType::float32).value(), 1);
}

class Precisions : public Run, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.kernels.precision = GetParam();
  }
};

TEST_P(Precisions, GiveTheSameBytesForEveryNumberOfRanks) {
  ASSERT_EQ(run(1, "on1"), Outcome::finished);
  for (int ranks : {2, 3}) {
    const auto name = "on" + std::to_string(ranks);
    ASSERT_EQ(run(ranks, name), Outcome::finished);
    EXPECT_EQ(digest(name), digest("on1")) << ranks << " ranks";
  }
}

TEST_P(Precisions, GiveTheSameBytesWhenStoppedAndResumed) {
  expect_same_bytes_when_stopped_and_resumed();
}

TEST_P(Precisions, LearnWhatFloatsLearn) {
  const auto last_losses = [&](const std::string& precision) {
    recipe_.kernels.precision = precision;
    recipe_.train.epochs = 20;
    recipe_.checkpoint.every = 0;
    recorder_.steps.clear();
    run(2, "learns-" + precision);
    double sum = 0;
    for (std::size_t i = recorder_.steps.size() - 10; i < recorder_.steps.size(); ++i) sum += *recorder_.steps[i].loss;
    return sum / 10;
  };
  const double floats = last_losses("fp32"), shorter = last_losses(GetParam());
  EXPECT_NE(shorter, floats) << "else nothing was rounded";
  EXPECT_NEAR(shorter, floats, 0.05 * floats);
}

INSTANTIATE_TEST_SUITE_P(Each, Precisions, ::testing::Values("bf16", "fp16"),
                         [](const auto& its) { return its.param; });

/// With one sample a step, the gradient of one that is wrong for sure is 1, times 65536 one that float16 cannot say.
class Overflowing : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.kernels.precision = "fp16";
    recipe_.model.batch_norm = false;
    recipe_.parallel = {.microbatches = 1, .microbatch_size = 1};
    recipe_.optim.learning_rate = 0.1;
    recipe_.checkpoint.every = 0;
  }
};

TEST_F(Overflowing, SkipsTheStepAndGoesOnWithASmallerScale) {
  ASSERT_EQ(run(1, "skips"), Outcome::finished);
  ASSERT_FALSE(recorder_.steps.empty());
  EXPECT_EQ(recorder_.steps[0].loss_scale, 65536);
  int skipped = 0;
  for (std::size_t i = 0; i + 1 < recorder_.steps.size(); ++i) {
    const auto &now = recorder_.steps[i], &next = recorder_.steps[i + 1];
    EXPECT_EQ(*next.loss_scale, now.skipped ? *now.loss_scale / 2 : *now.loss_scale);
    skipped += now.skipped;
  }
  EXPECT_GT(skipped, 0) << "else the test shows less than it says";
  EXPECT_FALSE(recorder_.steps.back().skipped);
}

TEST_F(Overflowing, KeepsTheScaleOverARestart) {
  ASSERT_EQ(run(1, "whole"), Outcome::finished);
  const auto whole = recorder_.steps;
  const auto skip = std::ranges::find_if(whole, &records::StepDone::skipped);
  ASSERT_NE(skip, whole.end()) << "else the test shows less than it says";
  EXPECT_EQ(run(1, "cut", static_cast<int>(skip->step.value) + 2), Outcome::stopped);
  recorder_.steps.clear();
  EXPECT_EQ(run(1, "cut"), Outcome::finished);
  ASSERT_FALSE(recorder_.steps.empty());
  EXPECT_LT(*recorder_.steps.front().loss_scale, 65536);
  EXPECT_EQ(digest("cut"), digest("whole"));
}

TEST_F(Run, OtherPrecisionsNeitherScaleNorSkip) {
  run(1, "plain");
  for (const auto& step : recorder_.steps) {
    EXPECT_FALSE(step.loss_scale);
    EXPECT_FALSE(step.skipped);
  }
}
}  // namespace
}  // namespace distdl::train
