// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/train/cadence.hpp>

namespace distdl::train {
namespace {
using checkpoint::Interval;

/// Trains `count` steps of so many seconds; the steps after which a save came.
std::vector<std::int64_t> train(Cadence& cadence, std::int64_t count, double step_seconds, double save_seconds) {
  std::vector<std::int64_t> saves;
  for (std::int64_t step = 1; step <= count; ++step) {
    bool save = cadence.due(Step(step));
    cadence.step_took(step_seconds);
    if (!save) continue;
    cadence.tried(Step(step));
    cadence.saved(save_seconds, save_seconds);
    saves.push_back(step);
  }
  return saves;
}

TEST(Cadence, OfAFixedNumberIsThatNumber) {
  Cadence cadence({.every = 30}, {});
  cadence.tried(Step(17));
  EXPECT_EQ(train(cadence, 100, 1, 50), (std::vector<std::int64_t>{30, 60, 90}));
  Cadence none({.every = 0}, {});
  EXPECT_TRUE(train(none, 1000, 1, 1).empty());
  EXPECT_THROW(Cadence({.every = -1}, {}), ConfigError);
  EXPECT_THROW(Cadence({.mtbf_hours = -1}, {}), ConfigError);
}

TEST(Cadence, ByCostComesToTheIntervalThatPays) {
  Cadence cadence({.every = Interval::by_cost(), .mtbf_hours = 10}, {});
  auto saves = train(cadence, 20'000, 0.5, 2);
  double seconds = checkpoint::daly_interval(2, 36000);  // 377 s
  ASSERT_GT(saves.size(), 10u);
  EXPECT_EQ(saves[0], 100);  // to measure
  for (std::size_t i = 2; i < saves.size(); ++i)
    EXPECT_NEAR(static_cast<double>(saves[i] - saves[i - 1]) * 0.5, seconds, 1);
}

TEST(Cadence, FollowsWhatSavesComeToCost) {
  Cadence cadence({.every = Interval::by_cost(), .mtbf_hours = 10}, {});
  train(cadence, 1000, 0.5, 2);
  auto cheap = cadence.steps();
  EXPECT_FALSE(cadence.saved(2.001, 2));  // not worth a word
  EXPECT_EQ(cadence.steps(), cheap);
  EXPECT_FALSE(cadence.saved(50, 50));  // one that was slow may be an accident
  EXPECT_EQ(cadence.steps(), cheap);
  for (int i = 0; i < 5; ++i) cadence.saved(50, 50);
  EXPECT_GT(cadence.steps(), 4 * cheap);
}

TEST(Cadence, NeverSavesBeforeTheLastSaveIsOnTheDisk) {
  Cadence cadence({.every = Interval::by_cost(), .mtbf_hours = 0.01}, {});
  cadence.step_took(1);
  cadence.saved(0.01, 500);
  EXPECT_EQ(cadence.steps(), 500);
  EXPECT_THAT(cadence.reason(), testing::HasSubstr("before the last save is on the disk"));
}

TEST(Cadence, HasBounds) {
  Cadence cadence({.every = Interval::by_cost(), .mtbf_hours = 1e-6}, {});
  cadence.step_took(1000);
  cadence.saved(0.001, 0.001);
  EXPECT_EQ(cadence.steps(), 1);
  Cadence lazy({.every = Interval::by_cost(), .mtbf_hours = 9e8}, {});
  lazy.step_took(0);
  lazy.saved(0, 0);
  EXPECT_GT(lazy.steps(), 1'000'000);
  EXPECT_LE(lazy.steps(), 1'000'000'000);
}

TEST(Cadence, LearnsFromTheJournal) {
  auto steps_with = [](checkpoint::FailureRecord failures) {
    Cadence cadence({.every = Interval::by_cost()}, failures);
    cadence.step_took(1);
    cadence.saved(10, 10);
    return cadence.steps();
  };
  EXPECT_GT(steps_with({}), 2 * steps_with({86400, 30}));
  EXPECT_THAT(Cadence({.every = Interval::by_cost()}, {7200, 3}).plan(),
              testing::AllOf(testing::HasSubstr("after 100 steps"),
                             testing::HasSubstr("every 6.5 h (learnt from 2 h with 3 ")));
  EXPECT_THAT(Cadence({.every = Interval::by_cost(), .mtbf_hours = 10}, {7200, 3}).plan(),
              testing::HasSubstr("every 10 h (checkpoint.mtbf_hours)"));
}

TEST(Cadence, AFailedSaveIsTriedAgainAfterAnInterval) {
  Cadence cadence({.every = Interval::by_cost(), .mtbf_hours = 10}, {});
  EXPECT_TRUE(cadence.due(Step(100)));
  cadence.tried(Step(100));
  EXPECT_FALSE(cadence.due(Step(101)));
  EXPECT_TRUE(cadence.due(Step(200)));
}
}  // namespace
}  // namespace distdl::train
