// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/optim/sgd.hpp>

namespace distdl::optim {
namespace {
TEST(LearningRate, WarmsUpAndFallsAsACosine) {
  Options options{.learning_rate = 1, .schedule = "cosine", .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(learning_rate(options, Step(0), Step(104)), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(options, Step(3), Step(104)), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(options, Step(4), Step(104)), 1.0);
  EXPECT_NEAR(learning_rate(options, Step(54), Step(104)), 0.5, 1e-12);
  EXPECT_GT(learning_rate(options, Step(103), Step(104)), 0.0);
}

TEST(LearningRate, FallsInStepsAtHalfAndThreeQuarters) {
  Options options{.learning_rate = 1, .schedule = "step"};
  EXPECT_DOUBLE_EQ(learning_rate(options, Step(49), Step(100)), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(options, Step(50), Step(100)), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(options, Step(75), Step(100)), 0.01);
}

TEST(Sgd, TreatsStatisticsAsRunningAverages) {
  tensor::ArenaLayout layout;
  layout.add("weight", {2});
  layout.add("mean", {1}, tensor::Role::statistic);
  layout.add("bias", {1});
  auto backend = kernels::make_backend({.backend = "reference"});
  std::vector<float> parameters(layout.size(), 1.0f), momentum(layout.size()), gradients(layout.size());
  auto at = [&](const char* name) { return layout.find(name)->offset; };
  gradients[at("weight")] = 2;
  gradients[at("mean")] = 12;  // the sum of what 3 microbatches saw
  gradients[at("bias")] = -1;
  Sgd sgd({.learning_rate = 1, .momentum = 0.5, .statistic_weight = 0.25}, layout);
  for (int i = 0; i < 2; ++i) sgd.update(*backend, parameters.data(), momentum.data(), gradients.data(), 0.1, 3);
  EXPECT_FLOAT_EQ(parameters[at("weight")], 1 - 0.1f * 2 - 0.1f * 3);
  EXPECT_FLOAT_EQ(parameters[at("bias")], 1 + 0.1f + 0.1f * 1.5f);
  EXPECT_FLOAT_EQ(parameters[at("mean")], (1 * 0.75f + 4 * 0.25f) * 0.75f + 4 * 0.25f);
  EXPECT_EQ(momentum[at("mean")], 0.0f);
}

TEST(Sgd, RefusesNonsense) {
  EXPECT_THROW(check({.learning_rate = 0}), ConfigError);
  EXPECT_THROW(check({.momentum = 1}), ConfigError);
  EXPECT_THROW(check({.schedule = "linear"}), ConfigError);
  EXPECT_THROW(check({.statistic_weight = 0}), ConfigError);
}
}  // namespace
}  // namespace distdl::optim
