// SPDX-License-Identifier: Apache-2.0
// What follows if nodes are lost, or do not hear each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/agent/membership/launch_of_agents.hpp"

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(Membership, ASpareTakesThePlaceOfALostNode) {
  LaunchOfAgents launch(4, rules(3));
  launch.begin();
  launch.lose(1);
  const auto took = launch.run_until_generation(2);
  EXPECT_GE(took, 3s);
  EXPECT_LT(took, 5s);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 3, 2}));
  EXPECT_THAT(launch.decision(2).cause, HasSubstr("hears no heartbeat of n1"));
}

TEST(Membership, TheFirstNodeIsReplacedLikeAnyOther) {
  LaunchOfAgents launch(3, rules(2));
  launch.begin();
  launch.lose(0);
  EXPECT_LT(launch.run_until_generation(2), 6s);
  EXPECT_EQ(launch.decision(2).members, launch.ids({2, 1}));
}

TEST(Membership, GoesOnWithFewerNodesWithoutSpares) {
  LaunchOfAgents launch(3, rules(3, 2));
  launch.begin();
  launch.lose(2);
  EXPECT_LT(launch.run_until_generation(2), 5s);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 1}));
}

TEST(Membership, EndsWhenTooFewNodesAreLeft) {
  LaunchOfAgents launch(3, rules(3, 3));
  launch.begin();
  launch.lose(2);
  EXPECT_GT(launch.run_until_generation(2), 20s);
  EXPECT_EQ(launch.decision(2).end, 69);
  launch.run(5s);
  EXPECT_EQ(launch[0].finish->code, 69);
  EXPECT_EQ(launch[1].finish->code, 69);
}

TEST(Membership, WaitsForANodeThatComesBackWhenTooFewAreLeft) {
  LaunchOfAgents launch(3, rules(3, 3));
  launch.begin();
  launch.isolate(2);
  launch.run(12s);
  launch.heal();
  EXPECT_LT(launch.run_until_generation(2), 3s);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 1, 2}));
}

TEST(Membership, TheLossOfASpareEndsNothing) {
  LaunchOfAgents launch(3, rules(2));
  launch.begin();
  launch.lose(2);
  launch.run(30s);
  EXPECT_EQ(launch.generation(), 1u);
}

TEST(Membership, ACutBetweenASpareAndAMemberEndsNothing) {
  LaunchOfAgents launch(3, rules(2));
  launch.begin();
  launch.cut(0, 2);
  launch.cut(2, 0);
  launch.run(30s);
  EXPECT_EQ(launch.generation(), 1u);
}

TEST(Membership, OneOfTwoNodesGoesWhenOneDoesNotHearTheOther) {
  LaunchOfAgents launch(4, rules(4));
  launch.begin();
  launch.cut(1, 2);
  EXPECT_LT(launch.run_until_generation(2), 6s);
  EXPECT_EQ(launch.decision(2).members.size(), 3u);
  EXPECT_FALSE(contains(launch.decision(2).members, NodeId(1)) && contains(launch.decision(2).members, NodeId(2)));
}

TEST(Membership, TheLargerPartGoesOnAndTheOtherFindsThatInTheLedger) {
  LaunchOfAgents launch(3, rules(3));
  launch.begin();
  launch.isolate(0);
  launch.run(25s);
  EXPECT_EQ(launch.generation(), 2u);
  EXPECT_EQ(launch.decision(2).members, launch.ids({1, 2}));
  EXPECT_EQ(launch.status(0).decision, launch.decision(2));
  EXPECT_FALSE(launch[0].running);
  launch.end_all_ranks(0);
  launch.run(10s);  // the node that is cut off learns of the end as well
  EXPECT_EQ(launch[0].finish->code, 0);
}

TEST(Membership, OfTwoHalvesThatWithTheFirstNodeGoesOn) {
  LaunchOfAgents launch(4, rules(4));
  launch.begin();
  for (std::size_t a : {0, 2})
    for (std::size_t b : {1, 3}) {
      launch.cut(a, b);
      launch.cut(b, a);
    }
  launch.run(20s);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 2}));
  EXPECT_EQ(launch.status(1).decision.generation, Generation(2));
}

TEST(Membership, ASmallPartGoesOnWhenItIsAllThatIsLeft) {
  LaunchOfAgents launch(5, rules(5));
  launch.begin();
  for (std::size_t node : {0, 1, 2}) launch.lose(node);
  EXPECT_GT(launch.run_until_generation(2), 12s);
  EXPECT_EQ(launch.decision(2).members, launch.ids({3, 4}));
}

TEST(Membership, TheSmallerPartPausesAlsoWhereAllMembersHaveSaved) {
  Rules growing = rules(4);
  growing.regrow_after = 5s;
  LaunchOfAgents launch(4, growing);
  launch.begin();
  launch.isolate(3);
  launch.run_until_generation(2);
  launch.heal();
  launch.agent(0).progress(100);
  launch.run(8s);
  for (std::size_t node : {0, 1, 2, 3}) launch[node].ledger_refuses = true;
  launch.end_all_ranks(75);
  launch.run(500ms);
  launch.isolate(0);  // which knows that all have saved
  launch.run(6s);
  launch[0].ledger_refuses = false;
  launch.run(2s);
  EXPECT_EQ(launch.generation(), 2u);
  for (std::size_t node : {1, 2, 3}) launch[node].ledger_refuses = false;
  EXPECT_LT(launch.run_until_generation(3), 2s);
  EXPECT_FALSE(contains(launch.decision(3).members, NodeId(0)));
  EXPECT_EQ(launch.decision(3).members.size(), 3u);
}

TEST(Membership, ANodeThatCameBackIsTakenInAfterTheNextFault) {
  LaunchOfAgents launch(3, rules(3));
  launch.begin();
  launch.isolate(2);
  launch.run_until_generation(2);
  launch.heal();
  launch.run(60s);
  EXPECT_EQ(launch.generation(), 2u);
  launch.agent(0).ranks_failed(137, "a crash");
  launch.run_until_generation(3);
  EXPECT_EQ(launch.decision(3).members, launch.ids({0, 1, 2}));
}

TEST(Membership, TakesANodeInAgainByAStopBetweenTwoSteps) {
  Rules growing = rules(3);
  growing.regrow_after = 5s;
  LaunchOfAgents launch(3, growing);
  launch.begin();
  launch.isolate(2);
  launch.run_until_generation(2);
  launch.heal();
  launch.run(10s);
  EXPECT_EQ(launch[0].stops, 0) << "the ranks have not come further yet";
  launch.agent(1).progress(100);  // only rank 0 says so, and a spare may have taken its place
  launch.run(6s);
  EXPECT_EQ(launch[0].stops, 1);
  EXPECT_EQ(launch[1].stops, 1);
  launch.end_all_ranks(75);
  EXPECT_LT(launch.run_until_generation(3), 500ms);
  EXPECT_EQ(launch.decision(3).members, launch.ids({0, 1, 2}));
  EXPECT_EQ(launch.decision(3).failures, 0u);
  launch.run(500ms);
  EXPECT_EQ(launch[2].running, Generation(3));
}

}  // namespace
}  // namespace distdl::agent
