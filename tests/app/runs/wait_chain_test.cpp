// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/app/runs/wait_chain.hpp>

namespace distdl::app {
namespace {
using agent::RankReport;
using agent::ThreadReport;
using agent::WaitReport;
using ::testing::ElementsAre;

RankReport busy(int rank, const std::string& phase) {
  ThreadReport thread{.name = "train", .phase = phase, .seconds = 12.34, .step = 118, .state = "S"};
  return {Rank(rank), 100 + rank, "S", {thread}};
}

RankReport waiting(int rank, int awaited) {
  auto report = busy(rank, "all-reduce");
  report.threads[0].wait = WaitReport{"all-reduce 356", 25400, Rank(awaited), 12.3};
  return report;
}

TEST(WaitChains, LeadToTheRankThatWaitsForNobody) {
  auto end = busy(0, "data");
  end.threads.push_back({.name = "reader", .phase = "read", .seconds = 12});
  const std::vector<RankReport> ranks{end, waiting(1, 0), waiting(2, 0), waiting(3, 1)};
  const auto chains = wait_chains(ranks);
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_THAT(chains[0].ranks, ElementsAre(Rank(3), Rank(1), Rank(0)));
  EXPECT_EQ(chains[0].end, WaitChain::End::busy);
  EXPECT_EQ(chains[0].waiting, 3u);
  EXPECT_EQ(sentence_of(chains[0], ranks),
            "rank 3 waits in all-reduce 356 for rank 1, which waits in all-reduce 356 for rank 0, which is in data at "
            "step 118 for 12.3 s; its reader is in read for 12.0 s");
}

TEST(WaitChains, AStoppedRankIsAnEndEvenIfItWaited) {
  auto stopped = waiting(1, 0);
  stopped.state = "T";
  const std::vector<RankReport> ranks{waiting(0, 1), stopped};
  const auto chains = wait_chains(ranks);
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_EQ(chains[0].end, WaitChain::End::stopped);
  EXPECT_EQ(sentence_of(chains[0], ranks),
            "rank 0 waits in all-reduce 356 for rank 1, which is frozen (stopped by a signal, state T), in all-reduce "
            "at step 118 for 12.3 s");
}

TEST(WaitChains, NameARankOfWhichNobodyTells) {
  const std::vector<RankReport> ranks{waiting(0, 5)};
  const auto chains = wait_chains(ranks);
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_EQ(chains[0].end, WaitChain::End::unknown);
  EXPECT_EQ(sentence_of(chains[0], ranks),
            "rank 0 waits in all-reduce 356 for rank 5, which is on a node that does not answer, or has ended");
}

TEST(WaitChains, RanksThatWaitForEachOtherAreACircle) {
  const std::vector<RankReport> ranks{waiting(0, 1), waiting(1, 2), waiting(2, 1), busy(3, "compute")};
  const auto chains = wait_chains(ranks);
  ASSERT_EQ(chains.size(), 2u);
  EXPECT_THAT(chains[0].ranks, ElementsAre(Rank(0), Rank(1), Rank(2), Rank(1)));
  EXPECT_EQ(chains[0].end, WaitChain::End::circle);
  EXPECT_EQ(chains[0].waiting, 3u);
  EXPECT_THAT(sentence_of(chains[0], ranks), ::testing::HasSubstr("for rank 1: they wait for each other"));
  EXPECT_THAT(chains[1].ranks, ElementsAre(Rank(3)));
  EXPECT_EQ(sentence_of(chains[1], ranks), "rank 3 is in compute at step 118 for 12.3 s");
}

TEST(WaitChains, ACircleThatHasJustBegunIsNone) {
  std::vector<RankReport> ranks{waiting(0, 1), waiting(1, 0)};
  ranks[1].threads[0].wait->seconds = 0.002;
  const auto chains = wait_chains(ranks);
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_EQ(chains[0].end, WaitChain::End::passing);
  EXPECT_THAT(sentence_of(chains[0], ranks), ::testing::EndsWith("for rank 0: they exchange data"));
}

TEST(WaitChains, ARankThatHasJustBegunSaysNothingYet) {
  const std::vector<RankReport> ranks{{Rank(0), 100, "R", {}}};
  EXPECT_EQ(sentence_of(wait_chains(ranks).at(0), ranks), "rank 0 has not begun to tell what it is at");
  EXPECT_TRUE(wait_chains({}).empty());
}
}  // namespace
}  // namespace distdl::app
