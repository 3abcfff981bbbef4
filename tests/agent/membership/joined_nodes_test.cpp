// SPDX-License-Identifier: Apache-2.0
// Nodes of another job.
#include <gtest/gtest.h>

#include "tests/agent/membership/launch_of_agents.hpp"

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;

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

Rules one_own_of_three() {
  Rules three = rules(3);
  three.regrow_after = 5s;
  three.own = 1;
  return three;
}

/// Begins the launch; its second generation has two nodes more.
void join_two(LaunchOfAgents& launch, const Rules& three) {
  launch.begin();
  for (int i = 0; i < 2; ++i) launch.join(three);
  launch.run(1s);
  launch.agent(0).progress(100);
  launch.run(7s);
  launch.end_all_ranks(75);
  launch.run_until_generation(2);
}

TEST(Membership, WhenMostMembersLeaveTheRestDoesNotPause) {
  const Rules three = one_own_of_three();
  LaunchOfAgents launch(1, three);
  join_two(launch, three);
  EXPECT_EQ(launch.decision(2).members, launch.ids({0, 1, 2}));
  launch.run(1s);
  for (std::size_t node : {1, 2}) launch.agent(node).leave();
  launch.run(500ms);
  launch.end_all_ranks(75);
  EXPECT_LT(launch.run_until_generation(3), 500ms);
  EXPECT_EQ(launch.decision(3).members, launch.ids({0}));
}

TEST(Membership, NodesThatJoinedWaitForTheOthersAlsoWhereAllMembersHaveSaved) {
  const Rules three = one_own_of_three();
  LaunchOfAgents launch(1, three);
  join_two(launch, three);
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

}  // namespace
}  // namespace distdl::agent
