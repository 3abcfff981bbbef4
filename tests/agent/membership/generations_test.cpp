// SPDX-License-Identifier: Apache-2.0
// How generations begin and end, all nodes being there.
#include <gtest/gtest.h>

#include "tests/agent/membership/launch_of_agents.hpp"
#include <distdl/base/errors.hpp>

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;

TEST(Membership, FormsAGenerationOfTheWantedNodesAndSpares) {
  LaunchOfAgents launch(3, rules(2));
  EXPECT_LT(launch.run_until_generation(1), 1s);
  launch.run(500ms);
  EXPECT_EQ(launch.decision(1).members, launch.ids({0, 1}));
  EXPECT_EQ(launch.decision(1).spares, launch.ids({2}));
  EXPECT_EQ(launch[0].running, Generation(1));
  EXPECT_EQ(launch[1].running, Generation(1));
  EXPECT_EQ(launch[2].starts, 0);
}

TEST(Membership, BeginsWithoutANodeThatNeverAnswers) {
  LaunchOfAgents launch(3, rules(3, 2));
  launch.lose(1);
  const auto took = launch.run_until_generation(1);
  EXPECT_GE(took, 15s);
  EXPECT_LT(took, 17s);
  EXPECT_EQ(launch.decision(1).members, launch.ids({0, 2}));
}

TEST(Membership, FinishesWhenTheRanksOfAllNodesHave) {
  LaunchOfAgents launch(2, rules(2));
  launch.begin();
  launch.end_ranks(0, 0);
  launch.run(10s);
  EXPECT_EQ(launch.generation(), 1u);
  launch.end_ranks(1, 0);
  launch.run(3s);
  EXPECT_EQ(launch.decision(2).end, 0);
  for (int node : {0, 1}) {
    ASSERT_TRUE(launch[node].finish);
    EXPECT_EQ(launch[node].finish->code, 0);
    EXPECT_TRUE(launch[node].finish->decided);
  }
}

TEST(Membership, StartsTheRanksAgainOnTheSameNodesAfterACrash) {
  LaunchOfAgents launch(3, rules(2));
  launch.begin();
  launch.agent(1).ranks_failed(139, "rank 1 was killed by SIGSEGV");
  EXPECT_LT(launch.run_until_generation(2), 500ms);
  launch.run(500ms);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 1}));
  EXPECT_EQ(launch.decision(2).cause, "n1: rank 1 was killed by SIGSEGV");
  for (int node : {0, 1}) {
    EXPECT_EQ(launch[node].ends, 1);
    EXPECT_EQ(launch[node].running, Generation(2));
  }
}

TEST(Membership, TheCauseOfAFaultCountsMoreThanWhatFollows) {
  LaunchOfAgents launch(3, rules(3));
  launch.begin();
  launch.end_ranks(0, 69);
  launch.end_ranks(2, 69);
  launch.end_ranks(1, 137);
  launch.run_until_generation(2);
  EXPECT_EQ(launch.decision(2).cause, "n1: code 137");
}

TEST(Membership, AStopReachesAllRanksOnce) {
  LaunchOfAgents launch(3, rules(2));
  launch.begin();
  launch.agent(2).stop();  // a spare
  launch.run(3s);
  EXPECT_EQ(launch[0].stops, 1);
  EXPECT_EQ(launch[1].stops, 1);
  launch.end_all_ranks(75);
  launch.run(3s);
  EXPECT_EQ(launch.decision(2).end, 75);
  for (int node : {0, 1, 2}) EXPECT_EQ(launch[node].finish->code, 75);
}

TEST(Membership, NoGenerationBeginsAfterAStop) {
  LaunchOfAgents launch(2, rules(2));
  launch.begin();
  launch.agent(0).stop();
  launch.agent(1).ranks_failed(139, "a crash");
  launch.run(3s);
  EXPECT_EQ(launch.decision(2).end, 75);
}

TEST(Membership, RanksThatStopByThemselvesEndTheLaunch) {
  LaunchOfAgents launch(2, rules(2));
  launch.begin();
  launch.end_all_ranks(75);
  launch.run(3s);
  EXPECT_EQ(launch.decision(2).end, 75);
}

TEST(Membership, EndsWithACodeThatARelaunchCannotHelp) {
  LaunchOfAgents launch(3, rules(2));
  launch.begin();
  launch.agent(1).ranks_failed(78, "the job file is wrong");
  launch.run(5s);
  EXPECT_EQ(launch.decision(2).end, 78);
  EXPECT_EQ(launch[0].finish->cause, "n1: the job file is wrong");
}

TEST(Membership, WaitsUntilTheRanksOfAllMembersHaveEnded) {
  LaunchOfAgents launch(3, rules(3));
  launch.begin();
  launch[1].ends_ranks = false;
  launch.agent(0).ranks_failed(137, "a crash");
  launch.run(6s);
  EXPECT_EQ(launch.generation(), 1u);
  launch.end_ranks(1, 69);
  EXPECT_LT(launch.run_until_generation(2), 500ms);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 1, 2}));
}

TEST(Membership, GoesOnWithoutANodeWhoseRanksDoNotEnd) {
  LaunchOfAgents launch(3, rules(3));
  launch.begin();
  launch[1].ends_ranks = false;
  launch.agent(0).ranks_failed(137, "a crash");
  const auto took = launch.run_until_generation(2);
  EXPECT_GE(took, 8s);
  EXPECT_LT(took, 10s);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 2}));
  EXPECT_EQ(launch[1].running, Generation(1));
}

TEST(Membership, StartsNoRanksWhileOlderOnesRun) {
  LaunchOfAgents launch(2, rules(2));
  launch.begin();
  launch[0].ends_ranks = false;
  Decision next = launch.decision(1);
  next.generation = Generation(2);
  launch.write(next);
  launch.agent(0).decided(next);
  launch.run(1s);
  EXPECT_EQ(launch[0].ends, 1);
  EXPECT_EQ(launch[0].starts, 1);
  EXPECT_EQ(launch.status(0).phase, Phase::ending);
  launch.end_ranks(0, 69);
  launch.run(200ms);
  EXPECT_EQ(launch[0].running, Generation(2));
}

TEST(Membership, GenerationsWithoutProgressAreCounted) {
  LaunchOfAgents launch(2, rules(2));
  launch.begin();
  launch.agent(0).progress(10);
  for (std::uint32_t generation = 2; generation <= 4; ++generation) {
    launch.agent(1).ranks_failed(139, "a crash");
    launch.run_until_generation(generation);
    launch.run(500ms);
    EXPECT_EQ(launch.decision(generation).failures, generation - 2) << "the first one made progress";
    EXPECT_EQ(launch.decision(generation).progress, 10);
  }
  launch.agent(1).ranks_failed(139, "a crash");
  launch.run(3s);
  EXPECT_EQ(launch.decision(5).end, 139);
}

TEST(Membership, RefusesRulesThatMakeNoSense) {
  EXPECT_THROW(LaunchOfAgents(2, rules(3, 3)), InternalError);
  EXPECT_THROW(LaunchOfAgents(2, rules(1, 2)), InternalError);
  EXPECT_THROW(LaunchOfAgents(2, rules(2, 0)), InternalError);
}

}  // namespace
}  // namespace distdl::agent
