// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/philox.hpp>
#include <distdl/parallel/gradient_sum.hpp>
#include <distdl/train/balance/microbatch_rule.hpp>

namespace distdl::train {
namespace {
using ::testing::ElementsAre;

/// Ranks whose speeds are known, and the rule that looks at them.
class Ranks {
 public:
  using Seconds = std::function<double(int rank, int share)>;
  Ranks(int ranks, int microbatches, Seconds seconds, double other = 0.1)
      : options_{.microbatches = microbatches, .microbatch_size = 1},
        seconds_(std::move(seconds)),
        other_(other),
        rule_(options_, parallel::make_plan(options_, ranks), arenas(ranks, 1)) {}

  std::vector<std::size_t> arenas(int ranks, std::size_t spare) const {
    std::vector<std::size_t> all;
    for (const auto& range : parallel::make_plan(options_, ranks).ranges)
      all.push_back(parallel::arenas_for(range, static_cast<int>(options_.microbatches)) + spare);
    return all;
  }
  std::vector<RankTimes> times() const {
    std::vector<RankTimes> all;
    double longest = 0;
    for (int r = 0; r < ranks(); ++r) {
      const int share = rule_.plan().of(Rank(r)).count;
      all.push_back({seconds_(r, share)});
      longest = std::max(longest, share * all.back().microbatch_seconds);
    }
    for (auto& each : all) each.step_seconds = longest + other_;
    return all;
  }
  double step_seconds() const { return times().front().step_seconds; }
  /// The number of changes in so many exchanges.
  int look(int exchanges) {
    int changes = 0;
    for (int i = 0; i < exchanges; ++i) changes += rule_.take(times());
    return changes;
  }
  std::vector<int> shares() const {
    std::vector<int> all;
    for (const auto& range : rule_.plan().ranges) all.push_back(range.count);
    return all;
  }
  int ranks() const { return static_cast<int>(rule_.plan().ranges.size()); }
  LoadBalance& rule() { return rule_; }
  void set_seconds(Seconds seconds) { seconds_ = std::move(seconds); }

 private:
  parallel::Options options_;
  Seconds seconds_;
  double other_;
  LoadBalance rule_;
};

TEST(LoadBalance, MovesMicrobatchesAwayFromASlowRank) {
  for (int slow = 0; slow < 3; ++slow) {
    Ranks ranks(3, 12, [slow](int rank, int) { return rank == slow ? 3.0 : 1.0; });
    const double before = ranks.step_seconds();
    EXPECT_EQ(ranks.look(3), 0) << "one exchange may be wrong";
    EXPECT_EQ(ranks.look(1), 1);
    EXPECT_GE(before / ranks.step_seconds(), 1.6) << slow;
    EXPECT_EQ(ranks.look(100), 0) << "and then they stay";
  }
}

TEST(LoadBalance, MovesThemBackWhenTheRankIsAsFastAsTheOthersAgain) {
  Ranks ranks(3, 12, [](int rank, int) { return rank == 1 ? 3.0 : 1.0; });
  ranks.look(10);
  EXPECT_NE(ranks.shares(), (std::vector{4, 4, 4}));
  ranks.set_seconds([](int, int) { return 1.0; });
  EXPECT_EQ(ranks.look(30), 1);
  EXPECT_THAT(ranks.shares(), ElementsAre(4, 4, 4));
}

TEST(LoadBalance, LeavesSmallDifferencesAndNoiseAlone) {
  Ranks near(4, 64, [](int rank, int) { return rank == 2 ? 1.09 : 1.0; });
  EXPECT_EQ(near.look(100), 0);
  std::uint64_t draw = 0;
  Ranks noisy(4, 64, [&draw](int, int) { return 0.96 + 0.08 * Philox::uniform(Philox::block(3, 1, draw++)[0]); });
  EXPECT_EQ(noisy.look(300), 0);
}

TEST(LoadBalance, ALateExchangeIsNoReason) {
  int exchange = 0;
  Ranks ranks(3, 12, [&exchange](int rank, int) { return rank == 1 && exchange % 5 == 4 ? 8.0 : 1.0; });
  for (; exchange < 50; ++exchange) EXPECT_EQ(ranks.look(1), 0);
}

TEST(LoadBalance, WithoutAnAnswerOfEachRankThereIsNoDecision) {
  Ranks ranks(3, 12, [](int rank, int) { return rank == 1 ? 3.0 : 1.0; });
  for (int i = 0; i < 20; ++i) {
    auto times = ranks.times();
    times[2] = {};
    EXPECT_FALSE(ranks.rule().take(times));
  }
  EXPECT_TRUE(ranks.rule().microbatch_seconds().empty());
  EXPECT_EQ(ranks.look(4), 1) << "later";
}

TEST(LoadBalance, TakesAMoveBackThatDoesNotHelpAndTriesLessAndLess) {
  // A rank with a third of a processor, that seems fast as long as it has less to do than that.
  Ranks ranks(3, 48, [](int rank, int share) { return rank == 1 && share > 8 ? 3.0 : 1.0; });
  const double equal = ranks.step_seconds();
  int changes = ranks.look(50);
  double slow = 0, all = 0;
  for (int i = 0; i < 400; ++i) {
    changes += ranks.look(1);
    all += 1;
    slow += ranks.step_seconds() > 0.7 * equal;
  }
  EXPECT_LT(slow / all, 0.1);
  EXPECT_LT(changes, 30);
}

TEST(LoadBalance, SaysWhyAMoveIsTakenBack) {
  const auto seconds_of_rank_1 = [](int share) { return share < 16 ? 20.0 : 3.0; };
  Ranks ranks(3, 48, [&](int rank, int share) { return rank == 1 ? seconds_of_rank_1(share) : 1.0; });
  EXPECT_EQ(ranks.look(4), 1);
  EXPECT_LT(ranks.shares()[1], 16) << "the move";
  EXPECT_EQ(ranks.rule().went_back(), "");
  EXPECT_EQ(ranks.look(1), 0);
  EXPECT_EQ(ranks.rule().went_back(), "");
  EXPECT_EQ(ranks.look(1), 1);
  EXPECT_THAT(ranks.shares(), ElementsAre(16, 16, 16));
  EXPECT_THAT(ranks.rule().went_back(), ::testing::MatchesRegex("a step took .* s after the move, and 48.1 s before"));
  ranks.look(1);
  EXPECT_EQ(ranks.rule().went_back(), "") << "it is of one exchange";
}

TEST(LoadBalance, CountsThePriceOfMorePartialSums) {
  Ranks ranks(
      3, 12, [](int rank, int) { return rank == 1 ? 1.5 : 1.0; }, 10);
  EXPECT_EQ(ranks.look(50), 0);
}

TEST(LoadBalance, OfOneMicrobatchEachMovesNothing) {
  Ranks ranks(3, 3, [](int rank, int) { return rank == 1 ? 5.0 : 1.0; });
  EXPECT_EQ(ranks.look(50), 0);
  EXPECT_THAT(ranks.rule().microbatch_seconds(), ElementsAre(1, 5, 1)) << "but knows who is slow";
}

TEST(LoadBalance, StaysWhereThereIsNoMemoryForMore) {
  Ranks ranks(3, 12, [](int rank, int) { return rank == 0 ? 3.0 : 1.0; });
  EXPECT_EQ(ranks.look(4), 1);
  ranks.rule().refuse(ranks.arenas(3, 0));
  EXPECT_THAT(ranks.shares(), ElementsAre(4, 4, 4));
  EXPECT_EQ(ranks.look(50), 0);
}

TEST(LoadBalance, LooksAboutOnceASecond) {
  for (const auto& [seconds, steps] : {std::pair(0.01, 25), std::pair(0.1, 4), std::pair(60.0, 4)}) {
    Ranks ranks(
        2, 8, [seconds = seconds](int, int) { return seconds; }, 0);
    EXPECT_EQ(ranks.rule().steps_until_next(), 4);
    ranks.look(1);
    EXPECT_EQ(ranks.rule().steps_until_next(), steps) << seconds;
  }
}
}  // namespace
}  // namespace distdl::train
