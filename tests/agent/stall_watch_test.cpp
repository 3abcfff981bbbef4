// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/agent/stall_watch.hpp>

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;

const StallLimits kLimits{.least = 20s, .least_of_saves = 300s};

TEST(PhaseHistory, APhaseHasNoLimitUntilItWasSeenOftenEnough) {
  PhaseHistory history;
  history.took(RankPhase::evaluate, 5s);
  EXPECT_FALSE(history.limit(RankPhase::evaluate, 0, kLimits)) << "the first one may take any time";
  EXPECT_FALSE(history.limit(RankPhase::evaluate, PhaseHistory::kEnough - 1, kLimits));
  EXPECT_EQ(history.limit(RankPhase::evaluate, PhaseHistory::kEnough, kLimits), Clock::duration(50s));
  EXPECT_FALSE(history.limit(RankPhase::save, 0, kLimits)) << "another phase has its own history";
}

TEST(PhaseHistory, ReadingSamplesHasALimitFromTheFirstBatchOn) {
  const PhaseHistory history;
  EXPECT_EQ(history.limit(RankPhase::data, 0, kLimits), Clock::duration(20s));
  EXPECT_EQ(history.limit(RankPhase::read, 0, kLimits), Clock::duration(20s));
  EXPECT_FALSE(history.limit(RankPhase::data, 0, StallLimits{})) << "switched off";
}

TEST(PhaseHistory, ALimitIsTenTimesTheLongestButNotShorterThanTheLeast) {
  PhaseHistory history;
  history.took(RankPhase::data, 10ms);
  EXPECT_EQ(history.limit(RankPhase::data, 100, kLimits), Clock::duration(20s));
  history.took(RankPhase::data, 4s);
  history.took(RankPhase::data, 1s);
  EXPECT_EQ(history.limit(RankPhase::data, 100, kLimits), Clock::duration(40s));
}

TEST(PhaseHistory, SavesHaveALeastOfTheirOwn) {
  PhaseHistory history;
  for (const RankPhase phase : {RankPhase::save, RankPhase::last_save, RankPhase::write, RankPhase::protect}) {
    history.took(phase, 1s);
    EXPECT_EQ(history.limit(phase, 100, kLimits), Clock::duration(300s)) << name_of(phase);
  }
  history.took(RankPhase::write, 60s);
  EXPECT_EQ(history.limit(RankPhase::write, 100, kLimits), Clock::duration(600s));
}

TEST(PhaseHistory, TheUpperLimitHoldsForWhatWasNeverSeenToo) {
  PhaseHistory history;
  const StallLimits limits{.least = 20s, .least_of_saves = 300s, .most = 30s};
  EXPECT_EQ(history.limit(RankPhase::evaluate, 0, limits), Clock::duration(30s));
  history.took(RankPhase::evaluate, 100s);
  EXPECT_EQ(history.limit(RankPhase::evaluate, 100, limits), Clock::duration(30s));
  EXPECT_FALSE(history.limit(RankPhase::idle, 100, limits)) << "a thread may wait for work for ever";
  EXPECT_FALSE(history.limit(RankPhase::data, 100, StallLimits{})) << "switched off";
}

/// A thread that was seen often in each phase.
struct Watched {
  StallWatch watch{kLimits};
  Clock::time_point now{1000s};
  ThreadSeen seen{.thread = 7, .step = Step(118), .count = 100};

  void enter(RankPhase phase) {
    seen.phase = phase;
    ++seen.entered;
  }
  auto after(Clock::duration time, Clock::duration late = {}) {
    now += time;
    return watch.look(seen, now, late);
  }
};

TEST(StallWatch, LearnsFromTheRunAndFindsTheRankThatNoLongerMoves) {
  Watched rank;
  rank.enter(RankPhase::data);
  EXPECT_FALSE(rank.after(0s));
  EXPECT_FALSE(rank.after(3s));
  rank.enter(RankPhase::compute);
  EXPECT_FALSE(rank.after(50ms));
  rank.enter(RankPhase::data);
  EXPECT_FALSE(rank.after(50ms));
  EXPECT_FALSE(rank.after(30s)) << "ten times three seconds";
  const auto stall = rank.after(1s);
  ASSERT_TRUE(stall);
  EXPECT_EQ(*stall, Clock::duration(31s));
  EXPECT_EQ(text_of_stall(rank.seen, *stall, rank.watch.history()),
            "made no progress for 31.0 s in data at step 118; the longest before took 3 s");
}

TEST(StallWatch, NamesTheFileThatIsWaitedFor) {
  Watched rank;
  rank.enter(RankPhase::data);
  rank.seen.file = "\"train.h5\"";
  EXPECT_FALSE(rank.after(0s));
  const auto stall = rank.after(21s);
  ASSERT_TRUE(stall);
  EXPECT_EQ(text_of_stall(rank.seen, *stall, rank.watch.history()),
            "made no progress for 21.0 s in data at step 118, reading \"train.h5\"");
}

TEST(StallWatch, ALongWaitIsToldOnce) {
  Watched rank;
  rank.enter(RankPhase::data);
  const auto is_told = [&] { return rank.watch.is_news(rank.seen, rank.now); };
  EXPECT_FALSE(rank.after(0s));
  EXPECT_FALSE(rank.after(4s));
  EXPECT_FALSE(is_told());
  EXPECT_FALSE(rank.after(2s));
  EXPECT_TRUE(is_told());
  EXPECT_FALSE(rank.after(2s));
  EXPECT_FALSE(is_told()) << "once";
  rank.enter(RankPhase::compute);
  EXPECT_FALSE(rank.after(6s));
  EXPECT_FALSE(is_told()) << "it has only just begun";
  rank.enter(RankPhase::data);
  EXPECT_FALSE(rank.after(1s));
  EXPECT_FALSE(rank.after(6s));
  EXPECT_FALSE(is_told()) << "eight seconds were none too many before";
}

TEST(StallWatch, AHangEndsSoonAfterARequestToStop) {
  for (const Clock::duration before : {0s, 5s}) {  // the hang began before the request, or with it
    Watched rank;
    rank.watch = StallWatch({.least = 20s, .least_of_saves = 300s, .after_stop = 4s});
    rank.enter(RankPhase::data);
    EXPECT_FALSE(rank.after(0s));
    EXPECT_FALSE(rank.after(before));
    rank.watch.stop(rank.now);
    EXPECT_FALSE(rank.after(4s));
    EXPECT_FALSE(rank.after(60s, 60s)) << "suspended meanwhile";
    rank.watch.stop(rank.now);  // once more: changes nothing
    EXPECT_TRUE(rank.after(1s));
  }
}

TEST(StallWatch, ARequestToStopGivesLongPhasesAndSavesTheirTime) {
  Watched rank;
  rank.watch = StallWatch({.least = 20s, .least_of_saves = 300s, .after_stop = 4s});
  rank.enter(RankPhase::compute);
  EXPECT_FALSE(rank.after(0s));
  EXPECT_FALSE(rank.after(2s));
  rank.watch.stop(rank.now);
  rank.enter(RankPhase::compute);
  EXPECT_FALSE(rank.after(0s));
  EXPECT_FALSE(rank.after(19s)) << "ten times two seconds";
  EXPECT_TRUE(rank.after(2s));
  rank.enter(RankPhase::last_save);
  EXPECT_FALSE(rank.after(0s));
  EXPECT_FALSE(rank.after(299s));
}

TEST(StallWatch, ARankThatWaitsForAnotherOneIsNotToBlame) {
  Watched rank;
  rank.enter(RankPhase::reduce);
  EXPECT_FALSE(rank.after(0s));
  rank.seen.wait = ThreadSeen::Wait{"all-reduce 7", 64, Rank(1), rank.now};
  EXPECT_FALSE(rank.after(3600s));
  rank.seen.wait.reset();
  EXPECT_FALSE(rank.after(50ms)) << "it has just been released";
  EXPECT_EQ(rank.watch.history().longest(RankPhase::reduce), Clock::duration(0));
  rank.seen.wait = ThreadSeen::Wait{"all-reduce 7", 64, std::nullopt, rank.now};
  EXPECT_TRUE(rank.after(21s)) << "it waits for itself";
}

TEST(StallWatch, AnAgentThatWasStarvedBlamesNoRank) {
  Watched rank;
  rank.enter(RankPhase::compute);
  EXPECT_FALSE(rank.after(0s));
  EXPECT_FALSE(rank.after(600s, 600s));
  EXPECT_FALSE(rank.after(20s));
  EXPECT_TRUE(rank.after(1s));
}

TEST(StallWatch, AnotherThreadInTheSamePlaceBeginsAnew) {
  Watched rank;
  rank.enter(RankPhase::read);
  EXPECT_FALSE(rank.after(0s));
  rank.seen.thread = 8;
  EXPECT_FALSE(rank.after(600s));
  EXPECT_EQ(rank.watch.history().longest(RankPhase::read), Clock::duration(0));
}
}  // namespace
}  // namespace distdl::agent
