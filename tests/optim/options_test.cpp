// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/optim/options.hpp>

namespace distdl::optim {
namespace {
using ::testing::HasSubstr;

std::string error_of(const Options& options) {
  try {
    check(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Options, DefaultsAndOrdinaryRecipesAreTaken) {
  EXPECT_NO_THROW(check({}));
  EXPECT_NO_THROW(check({.name = "adamw", .learning_rate = 3e-4, .beta2 = 0.95, .weight_decay = 0.1, .clip_norm = 1}));
  EXPECT_NO_THROW(check({.name = "lamb", .epsilon = 1e-6, .schedule = "linear", .ema_decay = 0.9999}));
  EXPECT_NO_THROW(check({.name = "lars", .learning_rate = 12, .scale_rate = "linear", .weight_decay = 5e-5}));
  EXPECT_NO_THROW(check({.schedule = "step", .milestones = {30, 60, 80}}));
}

TEST(Options, WordsThatNobodyKnowsAreRefusedWithThoseThatAreKnown) {
  EXPECT_THAT(error_of({.name = "adam"}),
              HasSubstr(R"(optim.name is "adam", but must be one of "sgd", "adamw", "lamb", "lars")"));
}

TEST(Options, NumbersThatMakeNoSenseAreRefusedByKey) {
  const double nan = std::nan(""), infinity = HUGE_VAL;
  for (const auto& [options, key] : std::vector<std::pair<Options, std::string>>{
           {{.learning_rate = 0}, "optim.learning_rate is 0"},
           {{.learning_rate = nan}, "optim.learning_rate"},
           {{.base_batch = 0}, "optim.base_batch is 0"},
           {{.momentum = 1}, "optim.momentum is 1"},
           {{.beta1 = 1}, "optim.beta1 is 1"},
           {{.beta2 = -0.1}, "optim.beta2 is -0.1"},
           {{.epsilon = 0}, "optim.epsilon is 0"},
           {{.trust_coefficient = 0}, "optim.trust_coefficient is 0"},
           {{.weight_decay = -1}, "optim.weight_decay is -1"},
           {{.warmup_steps = -1}, "optim.warmup_steps is -1"},
           {{.final_rate_share = 1.5}, "optim.final_rate_share is 1.5"},
           {{.schedule = "step", .milestones = {0, 3}}, "optim.milestones begin with step 0"},
           {{.schedule = "step", .milestones = {5, 5}}, "optim.milestones are 5, 5, but must be ascending"},
           {{.schedule = "step", .milestone_factor = 0}, "optim.milestone_factor is 0"},
           {{.clip_norm = -1}, "optim.clip_norm is -1"},
           {{.clip_norm = infinity}, "optim.clip_norm is inf"},
           {{.ema_decay = 1}, "optim.ema_decay is 1"},
           {{.statistic_weight = 0}, "optim.statistic_weight is 0"}})
    EXPECT_THAT(error_of(options), HasSubstr(key));
}

TEST(Options, WhatWouldBeIgnoredIsRefused) {
  EXPECT_THAT(error_of({.name = "adamw", .nesterov = true}), HasSubstr("optim.nesterov needs optim.name = \"sgd\""));
  EXPECT_THAT(error_of({.schedule = "cosine", .milestones = {5}}), HasSubstr("must be \"step\""));
}
}  // namespace
}  // namespace distdl::optim
