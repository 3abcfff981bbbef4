// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/plan.hpp>

namespace distdl::parallel {
namespace {
TEST(Plan, SharesEveryMicrobatchOnce) {
  for (int microbatches = 1; microbatches <= 40; ++microbatches)
    for (int ranks = 1; ranks <= microbatches; ++ranks) {
      auto plan = make_plan({.microbatches = microbatches, .microbatch_size = 2}, ranks);
      int next = 0, least = microbatches, most = 0;
      for (auto range : plan.ranges) {
        EXPECT_EQ(range.first, next);
        next += range.count;
        least = std::min(least, range.count);
        most = std::max(most, range.count);
      }
      EXPECT_EQ(next, microbatches);
      EXPECT_LE(most - least, 1);
    }
}

TEST(Plan, GivesASlowRankLess) {
  auto plan = make_plan({.microbatches = 12, .microbatch_size = 1}, {1.0, 0.5, 1.0});
  EXPECT_EQ(plan.ranges[0].count, 5);
  EXPECT_EQ(plan.ranges[1].count, 2);
  EXPECT_EQ(plan.ranges[2].count, 5);
}

TEST(Plan, RefusesMoreRanksThanMicrobatches) {
  try {
    make_plan({.microbatches = 3, .microbatch_size = 1}, 4);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("4 ranks, but only 3 microbatches"), std::string::npos) << error.what();
  }
}

TEST(Plan, RefusesNonsense) {
  EXPECT_THROW(make_plan({.microbatches = 0, .microbatch_size = 1}, 1), ConfigError);
  EXPECT_THROW(make_plan({.microbatches = 1, .microbatch_size = 0}, 1), ConfigError);
  EXPECT_THROW(make_plan({.microbatches = 2, .microbatch_size = 1}, {1.0, 0.0}), ConfigError);
}
}  // namespace
}  // namespace distdl::parallel
