// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/run_fixture.hpp"
#include <distdl/comm/peer_lost.hpp>
#include <distdl/train/balance/microbatch_mover.hpp>

namespace distdl::train {
namespace {
using ::testing::ElementsAre;

/// Rank `slow` takes three times as long as the others, from step `begin` on and before step `end`.
RankTimes slow_rank(Rank rank, Step step, const parallel::MicrobatchPlan& plan, int slow, int begin, int end) {
  const bool is_slow = step >= Step(begin) && step < Step(end);
  const auto seconds = [&](int r) { return is_slow && r == slow ? 3.0 : 1.0; };
  double longest = 0;
  for (int r = 0; r < static_cast<int>(plan.ranges.size()); ++r)
    longest = std::max(longest, plan.of(Rank(r)).count * seconds(r));
  return {seconds(rank.value), longest + 0.1};
}

class Balanced : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    recipe_.train.steps = 100;
    recipe_.train.evaluate_every = 4;
    recipe_.checkpoint.every = 25;
  }
  void be_slow(int slow, int begin, int end) {
    rank_times_ = [=](Rank rank, Step step, const auto& plan) { return slow_rank(rank, step, plan, slow, begin, end); };
  }
  /// The shares after each move.
  std::vector<std::vector<int>> moves() const {
    std::vector<std::vector<int>> all;
    for (const auto& each : recorder_.shares)
      if (each.moved) all.push_back(each.shares);
    return all;
  }
};

TEST_F(Balanced, GivesTheSameBytesWhereverAndWheneverMicrobatchesMove) {
  recipe_.train.balance = false;
  ASSERT_EQ(run(1, "alone"), Outcome::finished);
  be_slow(1, 0, 1000);
  ASSERT_EQ(run(3, "equal"), Outcome::finished);
  EXPECT_TRUE(recorder_.shares.empty()) << "it is off";
  recipe_.train.balance = true;
  for (int slow = 0; slow < 3; ++slow)
    for (int begin : {0, 13}) {
      const auto name = fmt::format("slow{}_{}", slow, begin);
      recorder_ = {};
      be_slow(slow, begin, 60);
      ASSERT_EQ(run(3, name), Outcome::finished);
      EXPECT_EQ(digest(name), digest("alone")) << name;
      const auto moved = moves();
      ASSERT_GE(moved.size(), 2u) << name;
      EXPECT_LE(moved.front()[static_cast<std::size_t>(slow)], 2) << name;
      EXPECT_THAT(moved.back(), ElementsAre(4, 4, 4)) << "when it is fast again";
    }
  EXPECT_EQ(digest("equal"), digest("alone"));
}

TEST_F(Balanced, GivesTheSameBytesWhenStoppedAndResumedMeanwhile) {
  rank_times_ = {};
  ASSERT_EQ(run(2, "whole"), Outcome::finished);
  be_slow(0, 0, 1000);
  EXPECT_EQ(run(3, "cut", 40), Outcome::stopped);
  EXPECT_EQ(run(2, "cut", 30), Outcome::stopped);
  recorder_.shares.clear();
  EXPECT_EQ(run(3, "cut"), Outcome::finished);
  EXPECT_EQ(digest("cut"), digest("whole"));
  EXPECT_FALSE(moves().empty()) << "a new start begins with equal shares and finds out again";
}

TEST_F(Balanced, TellsWhoIsSlowEvenWhereNothingMoves) {
  recipe_.train.steps = 40;
  recipe_.parallel = {.microbatches = 3, .microbatch_size = 12};
  be_slow(2, 0, 1000);
  ASSERT_EQ(run(3, "one_each"), Outcome::finished);
  EXPECT_TRUE(moves().empty());
  ASSERT_EQ(recorder_.shares.size(), 1u);
  EXPECT_THAT(recorder_.shares[0].microbatch_seconds, ElementsAre(1, 1, 3));
  EXPECT_EQ(recorder_.shares[0].hosts.size(), 3u);
  EXPECT_EQ(recorder_.shares[0].microbatch_size, 12);
  EXPECT_FALSE(recorder_.shares[0].recomputes);
}

TEST_F(Balanced, CountsWhatASuspendedRankHasMeasured) {
  recipe_.train.steps = 40;
  rank_times_ = [](Rank rank, Step, const parallel::MicrobatchPlan&) {
    return rank == Rank(1) ? RankTimes::disturbed() : RankTimes{1, 4.1};
  };
  ASSERT_EQ(run(3, "suspended"), Outcome::finished);
  EXPECT_TRUE(recorder_.shares.empty()) << "no time is known of rank 1";
  ASSERT_EQ(recorder_.disturbed.size(), 1u) << "at first, and then once a minute";
  EXPECT_THAT(recorder_.disturbed[0].measurements, ElementsAre(0, 1, 0));
  EXPECT_EQ(recorder_.disturbed[0].hosts.size(), 3u);
}

TEST(Balancing, OnlyLackOfMemoryIsNoEnd) {
  EXPECT_TRUE(is_lack_of_memory(comm::NoMemory("no space for 4 bytes of shared memory")));
  EXPECT_TRUE(is_lack_of_memory(Error(ExitCode::config, "the GPU's memory is full")));
  EXPECT_FALSE(is_lack_of_memory(CommError("a timeout")));
  EXPECT_FALSE(is_lack_of_memory(comm::PeerLost(Rank(1), "n1", "lost", ExitCode::config)));
  EXPECT_FALSE(is_lack_of_memory(Error(ExitCode::internal, "a GPU that does not answer")));
}

TEST_F(Balanced, MeasuresByItself) {
  recipe_.train.steps = 400;
  recipe_.checkpoint.every = 0;
  ASSERT_EQ(run(2, "measured"), Outcome::finished);
  ASSERT_EQ(run(1, "alone"), Outcome::finished);
  EXPECT_EQ(digest("measured"), digest("alone"));
}
}  // namespace
}  // namespace distdl::train
