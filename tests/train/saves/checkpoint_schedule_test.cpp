// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/train/saves/checkpoint_schedule.hpp>

namespace distdl::train {
namespace {
using checkpoint::Interval;

/// Trains `count` steps of so many seconds; the steps after which a save came.
std::vector<std::int64_t> train(CheckpointSchedule& checkpoint_schedule, std::int64_t count, double step_seconds,
                                double save_seconds) {
  std::vector<std::int64_t> saves;
  for (std::int64_t step = 1; step <= count; ++step) {
    bool save = checkpoint_schedule.due(Step(step));
    checkpoint_schedule.step_took(step_seconds);
    if (!save) continue;
    checkpoint_schedule.tried(Step(step));
    checkpoint_schedule.saved(save_seconds, save_seconds);
    saves.push_back(step);
  }
  return saves;
}

TEST(CheckpointSchedule, OfAFixedNumberIsThatNumber) {
  CheckpointSchedule checkpoint_schedule({.every = 30}, {});
  checkpoint_schedule.tried(Step(17));
  EXPECT_EQ(train(checkpoint_schedule, 100, 1, 50), (std::vector<std::int64_t>{30, 60, 90}));
  CheckpointSchedule none({.every = 0}, {});
  EXPECT_TRUE(train(none, 1000, 1, 1).empty());
  EXPECT_THROW(CheckpointSchedule({.every = -1}, {}), ConfigError);
  EXPECT_THROW(CheckpointSchedule({.mtbf_hours = -1}, {}), ConfigError);
}

TEST(CheckpointSchedule, ByCostComesToTheIntervalThatPays) {
  CheckpointSchedule checkpoint_schedule({.every = Interval::by_cost(), .mtbf_hours = 10}, {});
  auto saves = train(checkpoint_schedule, 20'000, 0.5, 2);
  double seconds = checkpoint::daly_interval(2, 36000);  // 377 s
  ASSERT_GT(saves.size(), 10u);
  EXPECT_EQ(saves[0], 100);  // to measure
  for (std::size_t i = 2; i < saves.size(); ++i)
    EXPECT_NEAR(static_cast<double>(saves[i] - saves[i - 1]) * 0.5, seconds, 1);
}

TEST(CheckpointSchedule, FollowsWhatSavesComeToCost) {
  CheckpointSchedule checkpoint_schedule({.every = Interval::by_cost(), .mtbf_hours = 10}, {});
  train(checkpoint_schedule, 1000, 0.5, 2);
  auto cheap = checkpoint_schedule.steps();
  EXPECT_FALSE(checkpoint_schedule.saved(2.001, 2));  // not worth a word
  EXPECT_EQ(checkpoint_schedule.steps(), cheap);
  EXPECT_FALSE(checkpoint_schedule.saved(50, 50));  // one that was slow may be an accident
  EXPECT_EQ(checkpoint_schedule.steps(), cheap);
  for (int i = 0; i < 5; ++i) checkpoint_schedule.saved(50, 50);
  EXPECT_GT(checkpoint_schedule.steps(), 4 * cheap);
}

TEST(CheckpointSchedule, NeverSavesBeforeTheLastSaveIsOnTheDisk) {
  CheckpointSchedule checkpoint_schedule({.every = Interval::by_cost(), .mtbf_hours = 0.01}, {});
  checkpoint_schedule.step_took(1);
  checkpoint_schedule.saved(0.01, 500);
  EXPECT_EQ(checkpoint_schedule.steps(), 500);
  EXPECT_THAT(checkpoint_schedule.reason(), testing::HasSubstr("before the previous save is on the disk"));
}

TEST(CheckpointSchedule, HasBounds) {
  CheckpointSchedule checkpoint_schedule({.every = Interval::by_cost(), .mtbf_hours = 1e-6}, {});
  checkpoint_schedule.step_took(1000);
  checkpoint_schedule.saved(0.001, 0.001);
  EXPECT_EQ(checkpoint_schedule.steps(), 1);
  CheckpointSchedule lazy({.every = Interval::by_cost(), .mtbf_hours = 9e8}, {});
  lazy.step_took(0);
  lazy.saved(0, 0);
  EXPECT_GT(lazy.steps(), 1'000'000);
  EXPECT_LE(lazy.steps(), 1'000'000'000);
}

TEST(CheckpointSchedule, LearnsFromTheJournal) {
  auto steps_with = [](checkpoint::FailureRecord failures) {
    CheckpointSchedule checkpoint_schedule({.every = Interval::by_cost()}, failures);
    checkpoint_schedule.step_took(1);
    checkpoint_schedule.saved(10, 10);
    return checkpoint_schedule.steps();
  };
  EXPECT_GT(steps_with({}), 2 * steps_with({86400, 30}));
  EXPECT_THAT(CheckpointSchedule({.every = Interval::by_cost()}, {7200, 3}).plan(),
              testing::AllOf(testing::HasSubstr("after 100 steps"),
                             testing::HasSubstr("every 6.5 h (estimated from 2 h with 3 ")));
  EXPECT_THAT(CheckpointSchedule({.every = Interval::by_cost(), .mtbf_hours = 10}, {7200, 3}).plan(),
              testing::HasSubstr("every 10 h (checkpoint.mtbf_hours)"));
}

TEST(CheckpointSchedule, AFailedSaveIsTriedAgainAfterAnInterval) {
  CheckpointSchedule checkpoint_schedule({.every = Interval::by_cost(), .mtbf_hours = 10}, {});
  EXPECT_TRUE(checkpoint_schedule.due(Step(100)));
  checkpoint_schedule.tried(Step(100));
  EXPECT_FALSE(checkpoint_schedule.due(Step(101)));
  EXPECT_TRUE(checkpoint_schedule.due(Step(200)));
}
}  // namespace
}  // namespace distdl::train
