// SPDX-License-Identifier: Apache-2.0
// Runs that stop in time: by the end of their job, which may move, and in the middle of an evaluation.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/train/stop/end_of_job.hpp>

namespace distdl::train {
namespace {
using ::testing::HasSubstr;

TEST_F(Run, StopsBeforeTheEndOfTheJob) {
  recipe_.train.epochs = 2000;
  recipe_.train.stop_margin_seconds = 1;
  world::run_threads(2, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    Setting setting{
        folder_ / "timed", {"local", 0, 0, "x"}, {std::chrono::system_clock::now() + std::chrono::seconds(3)}, {}};
    TestHost host;
    records::Observer silent;
    EXPECT_EQ(train::run(recipe_, setting, host, *communicator, world.rank().value == 0 ? recorder_ : silent),
              Outcome::stopped);
    communicator->close();
  });
  ASSERT_EQ(recorder_.stopped.size(), 1u);
  EXPECT_EQ(checkpoint::open(folder_ / "timed").step, recorder_.stopped[0].step);
  ASSERT_GE(recorder_.deadlines.size(), 2u) << "at the first step, and at the end";
  EXPECT_GT(recorder_.deadlines.back().times.save, 0);
  for (const auto& deadline : recorder_.deadlines) EXPECT_EQ(deadline.reason, explain(deadline));
  EXPECT_LT(recorder_.deadlines.back().last_safe, recorder_.deadlines.back().end);
}

TEST_F(Run, StopsWhereTheEndOfTheJobIsMoved) {
  recipe_.train.epochs = 2000;
  const auto now = std::chrono::system_clock::now();
  world::run_threads(2, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    Setting setting{folder_ / "moved", {"local", 0, 0, "x"}, {now + std::chrono::hours(24)}, {}};
    TestHost host;
    records::Observer silent;
    const bool is_first = world.rank().value == 0;
    if (is_first) host.at_end_of_job = [now] { return now + std::chrono::seconds(10); };  // within the margin of 15 s
    EXPECT_EQ(train::run(recipe_, setting, host, *communicator, is_first ? recorder_ : silent), Outcome::stopped);
    communicator->close();
  });
  ASSERT_EQ(recorder_.stopped.size(), 1u);
  EXPECT_THAT(recorder_.stopped[0].reason, HasSubstr("end of the job in"));
}

TEST_F(Run, AfterASuspensionTheEndIsNotWhatItWas) {
  recipe_.train.epochs = 2000;
  const auto now = std::chrono::system_clock::now();
  std::atomic<int> asked = 0;
  world::run_threads(2, [&](world::World& world) {
    auto communicator = comm::Communicator::connect(world, {});
    Setting setting{folder_ / "suspended", {"local", 0, 0, "x"}, {now + std::chrono::seconds(3)}, {}};  // in the margin
    TestHost host;
    records::Observer silent;
    const bool is_first = world.rank().value == 0;
    host.is_suspended = true;
    if (is_first)
      host.at_end_of_job = [&] { return ++asked < 3 ? std::nullopt : std::optional(now + std::chrono::seconds(4)); };
    EXPECT_EQ(train::run(recipe_, setting, host, *communicator, is_first ? recorder_ : silent), Outcome::stopped);
    communicator->close();
  });
  EXPECT_GE(recorder_.stopped.at(0).step, Step(3)) << "not before it was asked for the end again";
  for (const auto& deadline : recorder_.deadlines) EXPECT_EQ(deadline.times.step, 0) << "no step was measured";
}

TEST_F(Run, GivesAnEvaluationUpWhereOneRankMustStopAndDoesItAfterwards) {
  recipe_.train.evaluate_every_steps = 5;
  recipe_.train.evaluate_every = 0;
  ASSERT_EQ(run(2, "whole"), Outcome::finished);
  const auto whole = recorder_.evaluated;  // after 5, 10, 15 and 16 steps
  ASSERT_EQ(whole.size(), 4u);
  recorder_ = {};
  int asked = 0;
  stop_is_pending_ = [&](int rank) { return rank == 1 && ++asked > 2; };
  EXPECT_EQ(run(3, "cut"), Outcome::stopped);
  EXPECT_EQ(recorder_.stopped.at(0).step, Step(5));
  EXPECT_EQ(checkpoint::open(folder_ / "cut").step, Step(5));
  EXPECT_EQ(run(2, "cut"), Outcome::stopped) << "at once, in the evaluation that was left";
  EXPECT_EQ(recorder_.started.at(1).resumed_from, Step(5));
  EXPECT_TRUE(recorder_.evaluated.empty());
  stop_is_pending_ = [&](int rank) { return rank == 0 && recorder_.evaluated.size() == 3; };
  EXPECT_EQ(run(2, "cut"), Outcome::stopped) << "in the last one";
  EXPECT_EQ(recorder_.stopped.at(2).step, Step(16));
  EXPECT_EQ(run(1, "cut"), Outcome::stopped) << "and again";
  stop_is_pending_ = {};
  EXPECT_EQ(run(3, "cut"), Outcome::finished);
  EXPECT_EQ(digest("cut"), digest("whole"));
  ASSERT_EQ(recorder_.evaluated.size(), 4u);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(recorder_.evaluated[i].step, whole[i].step);
    EXPECT_EQ(recorder_.evaluated[i].loss, whole[i].loss);
  }
}
}  // namespace
}  // namespace distdl::train
