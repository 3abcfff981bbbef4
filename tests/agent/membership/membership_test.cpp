// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/agent/membership/launch_of_agents.hpp"
#include <distdl/base/errors.hpp>

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;
using ::testing::HasSubstr;

Rules rules(std::size_t wanted, std::size_t min_nodes = 1) {
  Rules rules;
  rules.wanted = wanted;
  rules.min_nodes = min_nodes;
  return rules;
}

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

TEST(Membership, EndsWithACodeThatARelaunchCannotHelp) {
  LaunchOfAgents launch(3, rules(2));
  launch.begin();
  launch.agent(1).ranks_failed(78, "the job file is wrong");
  launch.run(5s);
  EXPECT_EQ(launch.decision(2).end, 78);
  EXPECT_EQ(launch[0].finish->cause, "n1: the job file is wrong");
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

TEST(Membership, ASpareTakesThePlaceOfANodeThatMayFail) {
  LaunchOfAgents launch(3, rules(2));
  launch.begin();
  launch.agent(1).drain(true);
  launch.run(5s);
  EXPECT_EQ(launch[0].stops, 0) << "the ranks have not come further yet";
  launch.agent(0).progress(100);
  launch.run(1s);
  EXPECT_EQ(launch[0].stops, 1);
  EXPECT_EQ(launch[1].stops, 1);
  launch.end_all_ranks(75);
  EXPECT_LT(launch.run_until_generation(2), 500ms);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 2}));
  EXPECT_EQ(launch.decision(2).spares, launch.ids({1}));
  EXPECT_THAT(launch.decision(2).cause, HasSubstr("may fail"));
  launch.agent(0).progress(200);
  launch.run(5s);
  EXPECT_EQ(launch.generation(), 2u) << "and it stays so";
  EXPECT_EQ(launch[0].stops, 1);
  launch.lose(2);
  launch.run_until_generation(3);
  EXPECT_EQ(launch.decision(3).members, launch.ids({0})) << "a node that may fail is the last choice";
}

TEST(Membership, ANodeWithWrongBitsIsNotTakenInAgain) {
  Rules growing = rules(2);
  growing.regrow_after = 5s;
  LaunchOfAgents launch(3, growing);
  launch.begin();
  launch.end_ranks(0, 69);
  launch.end_ranks(1, 72);
  EXPECT_LT(launch.run_until_generation(2), 500ms);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 2}));
  launch.lose(2);
  launch.run_until_generation(3);
  EXPECT_EQ(launch.decision(3).members, launch.ids({0}));
  launch.run(1s);
  launch.agent(0).progress(100);
  launch.run(30s);
  EXPECT_EQ(launch[0].stops, 0);
  EXPECT_EQ(launch[1].starts, 1);
}

TEST(Membership, SparesTakeThePlacesOfANodeThatMayFailAndOfOneThatIsMissing) {
  LaunchOfAgents launch(4, rules(3));
  launch.begin();
  launch.isolate(2);
  launch.isolate(3);
  launch.run_until_generation(2);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 1}));
  launch.heal();
  launch.run(5s);
  launch.agent(0).progress(100);
  launch.run(5s);
  EXPECT_EQ(launch[0].stops, 0) << "they are not taken in for themselves";
  launch.agent(1).drain(true);
  launch.run(1s);
  EXPECT_EQ(launch[0].stops, 1);
  launch.end_all_ranks(75);
  EXPECT_LT(launch.run_until_generation(3), 500ms);
  EXPECT_EQ(launch.decision(3).members, launch.ids({0, 2, 3}));
}

TEST(Membership, ANodeThatMayFailIsNotTakenInAgain) {
  Rules growing = rules(2);
  growing.regrow_after = 5s;
  LaunchOfAgents launch(3, growing);
  launch.begin();
  launch.agent(2).drain(true);
  launch.lose(1);
  launch.run_until_generation(2);
  launch.run(1s);
  launch.agent(0).progress(100);
  launch.run(30s);
  EXPECT_EQ(launch[0].stops, 0);
  launch.agent(2).drain(false);
  launch.run(10s);
  EXPECT_EQ(launch[0].stops, 1) << "once it is well again";
}

TEST(Membership, WithoutASpareANodeThatMayFailGoesOn) {
  LaunchOfAgents launch(2, rules(2, 2));
  launch.begin();
  launch.agent(1).drain(true);
  launch.agent(0).progress(100);
  launch.run(30s);
  EXPECT_EQ(launch[0].stops, 0);
  EXPECT_EQ(launch.generation(), 1u);
}

/// Two nodes that want a third one.
class Joining : public testing::Test {
 protected:
  explicit Joining() {
    launch_.begin();
    launch_.join(rules_);
    launch_.run(1s);
  }
  static Rules growing() {
    Rules three = rules(3);
    three.regrow_after = 5s;
    three.own = 2;
    return three;
  }
  void grow() {
    launch_.agent(0).progress(100);
    launch_.run(7s);
    launch_.end_all_ranks(75);
    launch_.run_until_generation(2);
    launch_.run(500ms);
  }

  Rules rules_ = growing();
  LaunchOfAgents launch_{2, rules_};
};

TEST_F(Joining, ANodeOfAnotherJobIsASpareThenAMember) {
  for (int node : {0, 1, 2}) EXPECT_EQ(launch_.status(node).hears, std::vector<bool>(3, true)) << node;
  EXPECT_EQ(launch_[2].starts, 0);
  EXPECT_EQ(launch_[0].stops, 0) << "the ranks have not come further yet";
  grow();
  EXPECT_EQ(launch_[0].stops, 1);
  EXPECT_EQ(launch_.decision(2).members, launch_.ids({0, 1, 2}));
  EXPECT_EQ(launch_.decision(2).cause, "more nodes can take part");
  EXPECT_EQ(launch_[2].running, Generation(2));
  launch_.end_all_ranks(0);
  launch_.run(5s);
  for (int node : {0, 1, 2}) EXPECT_EQ(launch_[node].finish->code, 0) << node;
}

TEST_F(Joining, AMemberThatLeavesSavesWithTheOthersFirst) {
  grow();
  launch_.agent(2).leave();
  launch_.run(500ms);
  for (int node : {0, 1, 2}) EXPECT_EQ(launch_[node].stops, node < 2 ? 2 : 1) << node;
  launch_.end_ranks(2, 75);
  launch_.run(3s);
  EXPECT_EQ(launch_.generation(), 2u) << "the others still save";
  launch_.end_all_ranks(75);
  EXPECT_LT(launch_.run_until_generation(3), 500ms);
  EXPECT_EQ(launch_.decision(3).members, launch_.ids({0, 1}));
  EXPECT_EQ(launch_.decision(3).cause, "a node leaves the run");
  launch_.run(4s);
  ASSERT_TRUE(launch_[2].finish);
  EXPECT_EQ(launch_[2].finish->code, 0);
  launch_.agent(0).progress(200);
  launch_.run(20s);
  EXPECT_EQ(launch_.generation(), 3u);
}

TEST_F(Joining, RanksThatASignalStopsOnTheNodeThatLeavesDoNotEndTheLaunch) {
  grow();
  launch_.end_all_ranks(75);
  launch_.agent(2).leave();
  launch_.run_until_generation(3);
  EXPECT_EQ(launch_.decision(3).members, launch_.ids({0, 1}));
  EXPECT_FALSE(launch_.decision(3).end);
}

TEST_F(Joining, ASpareThatLeavesDisturbsNobody) {
  launch_.agent(2).leave();
  launch_.agent(0).progress(100);
  launch_.run(20s);
  EXPECT_EQ(launch_[2].finish->code, 0);
  EXPECT_EQ(launch_.generation(), 1u);
  EXPECT_EQ(launch_[0].stops, 0);
}

TEST_F(Joining, TheLaunchEndsWithTheLastNodeOfItsOwnJob) {
  grow();
  launch_.lose(0);
  launch_.run_until_generation(3);
  EXPECT_EQ(launch_.decision(3).members, launch_.ids({1, 2}));
  launch_.lose(1);
  launch_.run_until_generation(4);
  EXPECT_EQ(launch_.decision(4).end, 69);
  launch_.run(3s);
  ASSERT_TRUE(launch_[2].finish);
  EXPECT_TRUE(launch_[2].finish->decided);
}

TEST_F(Joining, NodesOfTheLaunchThatAreCutOffGoOnAloneBeforeTheOthersEndIt) {
  launch_.join(rules_);
  launch_.run(1s);
  launch_.lose(0);
  launch_.run_until_generation(2);
  EXPECT_EQ(launch_.decision(2).members, launch_.ids({2, 1, 3}));
  launch_.run(1s);
  launch_.isolate(1);
  launch_.run_until_generation(3);
  EXPECT_EQ(launch_.decision(3).members, launch_.ids({1}));
}

TEST_F(Joining, ANodeInWhichNoRanksCanBeginLeavesAndIsNotTakenAgain) {
  grow();
  launch_.end_ranks(2, 78);
  EXPECT_LT(launch_.run_until_generation(3), 500ms);
  EXPECT_EQ(launch_.decision(3).members, launch_.ids({0, 1}));
  launch_.run(4s);
  ASSERT_TRUE(launch_[2].finish);
  EXPECT_EQ(launch_[2].finish->code, 0);
  EXPECT_FALSE(launch_[2].finish->decided);
  launch_.agent(0).progress(200);
  launch_.run(20s);
  EXPECT_EQ(launch_.generation(), 3u);
  EXPECT_EQ(launch_[0].running, Generation(3));
}

TEST_F(Joining, ANodeThatFailsAfterTheRestoreLeavesToo) {
  grow();
  launch_.agent(0).progress(100);  // where the ranks begin
  launch_.end_ranks(2, 78);
  EXPECT_LT(launch_.run_until_generation(3), 500ms);
  EXPECT_FALSE(launch_.decision(3).end);
  EXPECT_EQ(launch_.decision(3).members, launch_.ids({0, 1}));
}

TEST_F(Joining, AfterAStepWithAllNodesTheLaunchEndsAsWithoutNodesThatJoined) {
  grow();
  for (int step : {100, 101}) launch_.agent(0).progress(step);
  launch_.end_ranks(2, 78);
  launch_.run_until_generation(3);
  EXPECT_EQ(launch_.decision(3).end, 78);
}

TEST_F(Joining, ANodeWithWrongBitsLeaves) {
  grow();
  launch_.end_ranks(2, 72);
  launch_.run_until_generation(3);
  EXPECT_EQ(launch_.decision(3).members, launch_.ids({0, 1}));
  launch_.run(4s);
  EXPECT_TRUE(launch_[2].finish);
  EXPECT_FALSE(launch_[0].finish);
}

TEST(Membership, WithTooFewNodesLeftTheLaunchEndsWithAllSaved) {
  Rules two = rules(2, 2);
  two.own = 2;
  LaunchOfAgents launch(2, two);
  launch.begin();
  launch.join(two);
  launch.run(1s);
  launch.lose(1);
  launch.run_until_generation(2);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 2}));
  launch.run(1s);
  launch.agent(2).leave();
  launch.run(1s);
  launch.end_all_ranks(75);
  EXPECT_LT(launch.run_until_generation(3), 500ms);
  EXPECT_EQ(launch.decision(3).end, 75);
}

TEST(Membership, WhenMostMembersLeaveTheRestDoesNotPause) {
  Rules three = rules(3);
  three.regrow_after = 5s;
  three.own = 1;
  LaunchOfAgents launch(1, three);
  launch.begin();
  for (int i = 0; i < 2; ++i) launch.join(three);
  launch.run(1s);
  launch.agent(0).progress(100);
  launch.run(7s);
  launch.end_all_ranks(75);
  launch.run_until_generation(2);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 1, 2}));
  launch.run(1s);
  for (std::size_t node : {1, 2}) launch.agent(node).leave();
  launch.run(500ms);
  launch.end_all_ranks(75);
  EXPECT_LT(launch.run_until_generation(3), 500ms);
  EXPECT_EQ(launch.decision(3).members, launch.ids({0}));
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
  for (std::size_t node : {0, 1}) launch.end_ranks(node, 75);
  launch.run(1s);
  for (std::size_t node : {1, 2, 3}) launch.cut(0, node);  // which it still hears
  launch.run(5s);
  launch.end_ranks(2, 75);
  EXPECT_LT(launch.run_until_generation(3), 2s);
  EXPECT_FALSE(contains(launch.decision(3).members, NodeId(0)));
  EXPECT_EQ(launch.decision(3).members.size(), 3u);
}

TEST(Membership, NodesThatJoinedWaitForTheOthersAlsoWhereAllMembersHaveSaved) {
  Rules three = rules(3);
  three.regrow_after = 5s;
  three.own = 1;
  LaunchOfAgents launch(1, three);
  launch.begin();
  for (int i = 0; i < 2; ++i) launch.join(three);
  launch.run(1s);
  launch.agent(0).progress(100);
  launch.run(7s);
  launch.end_all_ranks(75);
  launch.run_until_generation(2);
  launch.run(1s);
  launch.agent(2).leave();
  launch.run(500ms);
  for (std::size_t node : {0, 2}) launch.end_ranks(node, 75);
  launch.run(1s);
  launch.cut(0, 1);
  launch.cut(0, 2);
  launch.run(5s);
  launch.end_ranks(1, 75);
  launch.run(10s);
  EXPECT_EQ(launch.generation(), 3u) << "the launch's own node decides";
  EXPECT_EQ(launch.decision(3).members, launch.ids({0}));
}

TEST_F(Joining, ANodeThatHearsNothingOfItTakesTheDecisionOfTheLedger) {
  launch_.join(rules_);
  const std::size_t unseen = 3;
  Decision next = launch_.decision(1);
  next.generation = Generation(2);
  next.members = launch_.ids({2, unseen});
  launch_.write(next);
  launch_.agent(0).decided(next);
  launch_.run(100ms);
  EXPECT_EQ(launch_.status(0).decision.members, next.members);
  EXPECT_EQ(launch_[0].ends, 1);
}

TEST(Membership, RanksThatStopByThemselvesEndTheLaunch) {
  LaunchOfAgents launch(2, rules(2));
  launch.begin();
  launch.end_all_ranks(75);
  launch.run(3s);
  EXPECT_EQ(launch.decision(2).end, 75);
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

TEST(Membership, TheOneWhoseProposalStandsReportsIt) {
  LaunchOfAgents launch(3, rules(3));
  launch.begin();
  ASSERT_EQ(launch.reports(1).size(), 1u);
  EXPECT_FALSE(launch.reports(1)[0].broke_off) << "there was none before";
  launch[0].ledger_refuses = true;
  launch.agent(0).ranks_failed(137, "a crash");
  launch.run_until_generation(2);
  launch.run(3s);
  EXPECT_EQ(launch.decision(2).proposer, launch.id(1));
  ASSERT_EQ(launch[1].reports.size(), 1u) << "also where no rank starts any more";
  EXPECT_TRUE(launch[1].reports[0].broke_off);
  EXPECT_EQ(launch.reports(2).size(), 1u);
  launch.end_all_ranks(0);
  launch.run(5s);
  ASSERT_EQ(launch.reports(3).size(), 1u);
  EXPECT_FALSE(launch.reports(3)[0].broke_off) << "the run has finished";
}

TEST(Membership, AnEndThatNodesKnowThatHearNobodyIsReportedOnce) {
  LaunchOfAgents launch(2, rules(2, 2));
  launch.begin();
  launch.isolate(0);
  launch.run(60s);
  ASSERT_TRUE(launch.decision(2).end);
  EXPECT_TRUE(launch[0].finish && launch[0].finish->decided);
  EXPECT_TRUE(launch[1].finish && launch[1].finish->decided);
  ASSERT_EQ(launch.reports(2).size(), 1u);
  EXPECT_TRUE(launch.reports(2)[0].broke_off);
}

TEST(Membership, AProposalThatStandsIsReportedByWhoHearsOfItFromOthersFirst) {
  LaunchOfAgents launch(2, rules(2));
  launch.begin();
  Decision mine = launch.decision(1);
  mine.generation = Generation(2);
  mine.proposer = launch.id(0);
  launch.agent(1).decided(mine);
  launch.run(1s);
  ASSERT_EQ(launch[0].reports.size(), 2u);
  EXPECT_EQ(launch[0].reports[1].decision.generation, Generation(2));
  launch.agent(0).decided(mine);
  launch.run(1s);
  EXPECT_EQ(launch[0].reports.size(), 2u) << "once";
  EXPECT_TRUE(launch[1].reports.empty());
}

TEST(Membership, AnotherNodeDecidesWhenTheLedgerRefusesTheFirst) {
  LaunchOfAgents launch(3, rules(3));
  launch.begin();
  launch[0].ledger_refuses = true;
  launch.agent(2).ranks_failed(137, "a crash");
  EXPECT_LT(launch.run_until_generation(2), 2s);
  EXPECT_EQ(launch[1].proposals, 1);
}

TEST(Membership, AsksALedgerThatRefusedAgain) {
  LaunchOfAgents launch(1, rules(1));
  launch[0].ledger_refuses = true;
  launch.run(5s);
  EXPECT_GE(launch[0].proposals, 3);
  EXPECT_LE(launch[0].proposals, 7);
  launch[0].ledger_refuses = false;
  EXPECT_LT(launch.run_until_generation(1), 2s);
}

TEST(Membership, ADamagedDecisionIsNotTaken) {
  LaunchOfAgents launch(2, rules(2));
  launch.begin();
  Decision damaged = launch.decision(1);
  damaged.generation = Generation(2);
  damaged.members = launch.ids({0, kMostNodes});
  launch.agent(0).decided(damaged);
  launch.run(1s);
  EXPECT_EQ(launch.status(0).decision.generation, Generation(1));
}

TEST(Membership, GivesUpAloneWhenTheLedgerRefusesForTooLong) {
  LaunchOfAgents launch(1, rules(1));
  launch[0].ledger_refuses = true;
  EXPECT_LE(launch.run_until([&] { return launch[0].finish.has_value(); }), 61s);
  EXPECT_EQ(launch[0].finish->code, 69);
  EXPECT_FALSE(launch[0].finish->decided);
  EXPECT_EQ(launch[0].finish->cause, "no generation could be decided within 60 s");
}

TEST(Membership, GivesUpAtOnceWhereNoGenerationCanFollow) {
  LaunchOfAgents launch(2, rules(2));
  launch.begin();
  launch.agent(0).give_up(69, "a record is damaged");
  launch.run(100ms);
  ASSERT_TRUE(launch[0].finish);
  EXPECT_EQ(launch[0].finish->code, 69);
  EXPECT_EQ(launch[0].finish->cause, "a record is damaged");
  EXPECT_FALSE(launch[0].finish->decided);
}

TEST(Membership, ASpareThatHearsNoMemberGivesUpAlone) {
  LaunchOfAgents launch(2, rules(1));
  launch.begin();
  launch.lose(0);
  EXPECT_GT(launch.run_until([&] { return launch[1].finish.has_value(); }), 60s);
  EXPECT_EQ(launch.generation(), 1u);
  EXPECT_FALSE(launch[1].finish->decided);
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

TEST(Membership, ASpareReplacesANodeThatFailsTwice) {
  LaunchOfAgents launch(3, rules(2));
  launch.begin();
  for (std::uint32_t generation : {2u, 3u}) {
    launch.agent(0).ranks_failed(139, "a crash");
    launch.run_until_generation(generation);
    launch.run(500ms);
  }
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 1}));
  EXPECT_EQ(launch.decision(3).members, launch.ids({2, 1}));
  EXPECT_EQ(launch.decision(3).spares, launch.ids({0}));
}

TEST(Membership, RefusesRulesThatMakeNoSense) {
  EXPECT_THROW(LaunchOfAgents(2, rules(3, 3)), InternalError);
  EXPECT_THROW(LaunchOfAgents(2, rules(1, 2)), InternalError);
  EXPECT_THROW(LaunchOfAgents(2, rules(2, 0)), InternalError);
}

}  // namespace
}  // namespace distdl::agent
