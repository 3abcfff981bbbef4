// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/agent/membership/next_decision.hpp>

namespace distdl::agent {
namespace {
using ::testing::HasSubstr;

std::vector<NodeId> ids(std::initializer_list<std::uint32_t> nodes) {
  std::vector<NodeId> all;
  for (auto node : nodes) all.emplace_back(node);
  return all;
}

/// Generation 5 of nodes 0, 1, 2, with the spare 3; all ranks have ended with a lost peer.
class NextDecisionTest : public testing::Test {
 protected:
  NextDecisionTest() {
    rules_.wanted = 3;
    last_.generation = Generation(5);
    last_.members = ids({0, 1, 2});
    last_.spares = ids({3});
    last_.progress = 100;
    for (std::uint32_t node = 0; node < 4; ++node) {
      Status& status = statuses_.emplace_back();
      status.node = NodeId(node);
      status.decision.generation = last_.generation;
      status.progress = 100;
    }
    for (std::uint32_t node = 0; node < 3; ++node) ended(node, kPeerLost);
  }
  void ended(std::uint32_t node, int code, const std::string& cause = "a cause") {
    statuses_[node].phase = Phase::ended;
    statuses_[node].code = code;
    statuses_[node].cause = cause;
  }
  void crashed(std::uint32_t node, int rank, CauseKind kind, int code) {
    ended(node, code);
    statuses_[node].origin = {kind, NodeId(node), rank};
  }
  Decision next() const {
    return next_decision({last_, statuses_, connected_, fault_, stop_, regrow_}, rules_).decision;
  }

  Rules rules_;
  Decision last_;
  std::vector<Status> statuses_;
  std::vector<NodeId> connected_ = ids({0, 1, 2, 3});
  std::string fault_ = "a fault";
  bool stop_ = false, regrow_ = false;
};

TEST_F(NextDecisionTest, KeepsMembersAndSpares) {
  const Decision decision = next();
  EXPECT_EQ(decision.generation, Generation(6));
  EXPECT_EQ(decision.members, ids({0, 1, 2}));
  EXPECT_EQ(decision.spares, ids({3}));
  EXPECT_EQ(decision.cause, "a fault");
  EXPECT_EQ(decision.failures, 1u);
  EXPECT_EQ(decision.losses, 0u);
}

TEST_F(NextDecisionTest, ALossIsNoFailure) {
  connected_ = ids({0, 2, 3});
  const Decision decision = next();
  EXPECT_EQ(decision.members, ids({0, 3, 2}));
  EXPECT_EQ(decision.failures, 0u);
  EXPECT_EQ(decision.losses, 1u);
}

TEST_F(NextDecisionTest, ProgressBeginsTheCountsAfresh) {
  last_.failures = last_.losses = 2;
  last_.node_failures = {{NodeId(1), 1}};
  statuses_[3].progress = 101;
  ended(1, 139);
  const Decision decision = next();
  EXPECT_EQ(decision.failures, 0u);
  EXPECT_EQ(decision.losses, 0u);
  EXPECT_TRUE(decision.node_failures.empty());
  EXPECT_EQ(decision.progress, 101);
}

TEST_F(NextDecisionTest, EndsAfterTooManyFailuresWithTheWorstCode) {
  last_.failures = rules_.tries - 1;
  ended(1, 139, "n1: SIGSEGV");
  const Decision decision = next();
  EXPECT_EQ(decision.end, 139);
  EXPECT_TRUE(decision.members.empty());
  EXPECT_THAT(decision.cause, HasSubstr("3 generations in a row made no progress"));
  EXPECT_THAT(decision.cause, HasSubstr("n1: SIGSEGV"));
}

TEST_F(NextDecisionTest, EndsAfterTooManyLosses) {
  last_.losses = rules_.losses - 1;
  connected_ = ids({0, 2, 3});
  EXPECT_EQ(next().end, kPeerLost);
}

TEST_F(NextDecisionTest, CountsOnlyCausesAsFailuresOfANode) {
  last_.node_failures = {{NodeId(1), 1}};
  ended(0, 139);
  ended(1, 70);
  rules_.node_tries = 3;
  EXPECT_EQ(next().node_failures, (std::vector<NodeFailures>{{NodeId(1), 2}, {NodeId(0), 1}}));
}

TEST_F(NextDecisionTest, ReplacesANodeThatFailsAgainAndAgain) {
  last_.node_failures = {{NodeId(1), 1}};
  ended(1, 139);
  EXPECT_EQ(next().members, ids({0, 3, 2}));
  connected_ = ids({0, 1, 2});
  EXPECT_EQ(next().members, ids({0, 1, 2})) << "no spare";
}

TEST_F(NextDecisionTest, ANodeWithWrongBitsRunsNoMoreRanks) {
  crashed(1, 1, CauseKind::corrupted, kCorruption);
  const Decision decision = next();
  EXPECT_EQ(decision.members, ids({0, 3, 2}));
  EXPECT_TRUE(decision.spares.empty());
  EXPECT_EQ(decision.wrong, ids({1}));
  EXPECT_EQ(decision.origin, (Origin{CauseKind::corrupted, NodeId(1), 1}));
  EXPECT_EQ(decision.failures, 0u) << "it cannot happen again";

  connected_ = ids({0, 1, 2});
  EXPECT_EQ(next().members, ids({0, 2})) << "no spare";
  last_.wrong = ids({3});
  EXPECT_EQ(next().wrong, ids({3, 1}));
  ended(1, kPeerLost);
  connected_ = ids({0, 1, 3});
  EXPECT_EQ(next().members, ids({0, 1})) << "not the node of an earlier generation either";
}

TEST_F(NextDecisionTest, EndsAtOnceIfTooFewNodesAreWithoutWrongBits) {
  rules_.min_nodes = 3;
  last_.wrong = ids({3});
  crashed(1, 1, CauseKind::corrupted, kCorruption);
  const NextDecision next = next_decision({last_, statuses_, connected_, fault_}, rules_);
  EXPECT_EQ(next.decision.end, kCorruption);
  EXPECT_FALSE(next.lacks_nodes) << "all nodes are here";
  EXPECT_THAT(next.decision.cause, HasSubstr("2 of at least 3 nodes are left"));
}

TEST_F(NextDecisionTest, NoNodeIsLeftOutIfNothingTellsWhichOneIsWrong) {
  last_.members = ids({0, 1});
  for (std::uint32_t node : {0, 1}) crashed(node, static_cast<int>(node), CauseKind::corrupted, kCorruption);
  EXPECT_EQ(next().members, ids({0, 1, 2})) << "filled up";
  EXPECT_TRUE(next().wrong.empty());
  EXPECT_EQ(next().failures, 1u);
}

TEST_F(NextDecisionTest, ASpareThatFailedBeforeIsTakenOnlyIfNeeded) {
  last_.node_failures = {{NodeId(3), 2}};
  connected_ = ids({0, 1, 3});
  EXPECT_EQ(next().members, ids({0, 1}));
  rules_.min_nodes = 3;
  EXPECT_EQ(next().members, ids({0, 1, 3}));
}

TEST_F(NextDecisionTest, MissingNodesAreFilledUp) {
  last_.members = ids({0, 1});
  EXPECT_EQ(next().members, ids({0, 1, 2}));
}

TEST_F(NextDecisionTest, EndsWithoutEnoughNodes) {
  rules_.min_nodes = 3;
  connected_ = ids({0, 3});
  const NextDecision next = next_decision({last_, statuses_, connected_, fault_}, rules_);
  EXPECT_TRUE(next.lacks_nodes);
  EXPECT_EQ(next.decision.end, kPeerLost);
  EXPECT_THAT(next.decision.cause, HasSubstr("2 of at least 3 nodes are left"));
}

TEST_F(NextDecisionTest, FinishesWhenAllHaveEndedWell) {
  for (std::uint32_t node : {0, 1, 2}) ended(node, kOk);
  EXPECT_EQ(next().end, kOk);
  stop_ = true;
  EXPECT_EQ(next().end, kOk);
  ended(1, kRequeue);
  EXPECT_EQ(next().end, kRequeue);
}

TEST_F(NextDecisionTest, AStopEndsAlsoAfterACrash) {
  stop_ = true;
  ended(1, 139);
  EXPECT_EQ(next().end, kRequeue);
}

TEST_F(NextDecisionTest, WhatARelaunchCannotHelpEnds) {
  ended(1, 139);
  ended(2, 78, "n2: the job file");
  stop_ = true;
  EXPECT_EQ(next().end, 78);
  EXPECT_EQ(next().cause, "n2: the job file");
}

TEST_F(NextDecisionTest, RanksThatStoppedForMoreNodesGoOn) {
  last_.members = ids({0, 1});
  for (std::uint32_t node : {0, 1}) ended(node, kRequeue);
  fault_.clear();
  regrow_ = true;
  EXPECT_FALSE(next().end);
  EXPECT_EQ(next().members, ids({0, 1, 2}));
  EXPECT_EQ(next().failures, 0u);
  stop_ = true;
  EXPECT_EQ(next().end, kRequeue);
}

TEST_F(NextDecisionTest, NamesTheNodeThatNobodyHears) {
  connected_ = ids({0, 2, 3});
  for (auto& status : statuses_) status.hears = {true, false, true, true};
  EXPECT_EQ(next().origin, (Origin{CauseKind::node_lost, NodeId(1), std::nullopt}));
  statuses_[2].hears[1] = true;
  EXPECT_EQ(next().origin, (Origin{CauseKind::link_lost, NodeId(1), std::nullopt}));
}

TEST_F(NextDecisionTest, RanksThatLoseEachOtherWhileTheirAgentsDoNotHaveLostALink) {
  EXPECT_EQ(next().origin.kind, CauseKind::link_lost);
}

TEST_F(NextDecisionTest, NamesTheRankThatIsTheCause) {
  connected_ = ids({0, 1, 3});
  crashed(1, 4, CauseKind::killed, 137);
  EXPECT_EQ(next().origin, (Origin{CauseKind::killed, NodeId(1), 4}));
}

TEST_F(NextDecisionTest, TellsALossThatIsNoNumberFromAWrongJobFile) {
  crashed(1, 4, CauseKind::failed, 78);
  EXPECT_EQ(next().origin.kind, CauseKind::failed);
  statuses_[0].step = 12;  // of rank 0
  EXPECT_EQ(next().origin.kind, CauseKind::diverged);
  EXPECT_EQ(next().end, 78) << "no further launch";
}

TEST_F(NextDecisionTest, ASecondCrashAfterTheSameStepIsAPoisonStepAndChangesTheNodes) {
  crashed(1, 4, CauseKind::crashed, 139);
  statuses_[0].step = 100;
  Decision decision = next();
  EXPECT_EQ(decision.origin.kind, CauseKind::crashed);
  EXPECT_EQ(decision.crashed_after, 100);
  EXPECT_EQ(decision.members, last_.members) << "the same again, once";
  last_.crashed_after = 100;
  decision = next();
  EXPECT_EQ(decision.origin, (Origin{CauseKind::poison_step, NodeId(1), 4}));
  EXPECT_THAT(decision.cause, HasSubstr("crashed twice after step 100"));
  EXPECT_EQ(decision.members, ids({0, 3, 2}));
}

TEST_F(NextDecisionTest, APoisonStepWithoutSpareEndsTheLaunch) {
  crashed(1, 4, CauseKind::out_of_memory, 137);
  statuses_[0].step = last_.crashed_after = 100;
  connected_ = ids({0, 1, 2});
  EXPECT_EQ(next().end, 137);
  EXPECT_EQ(next().origin.kind, CauseKind::poison_step);
  statuses_[0].step = 99;
  EXPECT_FALSE(next().end) << "another step";
  statuses_[0].step = last_.crashed_after = -1;
  EXPECT_FALSE(next().end) << "it did not train";
}

TEST_F(NextDecisionTest, WhatIsKilledFromOutsideTwiceIsNoPoison) {
  for (CauseKind kind : {CauseKind::killed, CauseKind::frozen}) {
    crashed(1, 4, kind, 137);
    statuses_[0].step = last_.crashed_after = 100;
    EXPECT_EQ(next().members, last_.members);
    EXPECT_EQ(next().crashed_after, -1);
  }
}

TEST_F(NextDecisionTest, NodesThatJoinedDoNotGoOnAlone) {
  rules_.own = 2;
  connected_ = ids({1, 2, 3});
  EXPECT_EQ(next().members, ids({3, 1, 2}));
  connected_ = ids({2, 3});
  const NextDecision end = next_decision({last_, statuses_, connected_, fault_}, rules_);
  EXPECT_EQ(end.decision.end, kPeerLost);
  EXPECT_TRUE(end.lacks_nodes);
  EXPECT_THAT(end.decision.cause, HasSubstr("no node of the run's own job is left"));
}

TEST_F(NextDecisionTest, TheLastOwnNodeIsNotReplacedByOneThatJoined) {
  rules_.own = rules_.wanted = 1;
  last_.members = ids({0});
  last_.node_failures = {{NodeId(0), 1}};
  ended(0, 139);
  EXPECT_EQ(next().members, ids({0}));
  rules_.wanted = 2;
  EXPECT_EQ(next().members, ids({1, 0}));
}

TEST_F(NextDecisionTest, SparesOfTheLaunchOnlyReplaceItsOwnNodes) {
  rules_.own = 3;
  rules_.own_wanted = 2;
  for (const auto& [connected, members] : {std::pair(ids({0, 1, 2}), ids({0, 1})),
                                           {ids({0, 1, 2, 3}), ids({0, 1, 3})},
                                           {ids({0, 2, 3}), ids({0, 2, 3})},
                                           {ids({1, 3}), ids({3, 1})}}) {
    last_.members = ids({0, 1});
    connected_ = connected;
    EXPECT_EQ(next().members, members);
  }
  last_.members = ids({0, 1, 3});
  connected_ = ids({0, 1, 2});
  EXPECT_EQ(next().members, ids({0, 1})) << "one that joined is lost";
  last_.generation = Generation(0);
  last_.members = connected_;
  EXPECT_EQ(next().members, ids({0, 1})) << "at the start";
}

TEST_F(NextDecisionTest, GoesBackWithoutNodesThatJoinedAndDoNotFit) {
  rules_.own = 2;
  last_.newcomers = ids({2});
  ended(2, 78, "n2: another device");
  const Decision decision = next();
  EXPECT_EQ(decision.members, ids({0, 1, 3}));
  EXPECT_EQ(decision.newcomers, ids({3}));
  EXPECT_EQ(decision.wrong, ids({2}));
  EXPECT_EQ(decision.cause, "no ranks can begin on nodes that joined: n2: another device");
  EXPECT_EQ(decision.failures, 0u);
  EXPECT_EQ(decision.losses, 1u);

  rules_.min_nodes = 3;
  connected_ = ids({0, 1, 2});
  EXPECT_EQ(next().end, kPeerLost) << "the next launch may go on";
  rules_.min_nodes = 1;
  stop_ = true;
  EXPECT_EQ(next().end, kRequeue);
}

TEST_F(NextDecisionTest, ANodeThatJoinedAndCrashesBeforeAStepDoesNotFitEither) {
  rules_.own = 1;
  last_.newcomers = ids({1, 2});
  statuses_[0].step = 90;  // restored
  crashed(2, 4, CauseKind::crashed, 132);
  EXPECT_EQ(next().wrong, ids({2})) << "the other one may fit";
  EXPECT_EQ(next().members, ids({0, 1, 3}));
  crashed(2, 4, CauseKind::killed, 137);
  EXPECT_TRUE(next().wrong.empty()) << "somebody else has killed it";
  crashed(2, 4, CauseKind::crashed, 132);
  statuses_[0].has_trained = true;
  EXPECT_TRUE(next().wrong.empty());
  statuses_[0].has_trained = false;
  crashed(0, 0, CauseKind::crashed, 139);
  crashed(2, 4, CauseKind::unknown, kPeerLost);
  EXPECT_TRUE(next().wrong.empty()) << "a node of the launch";
}

TEST_F(NextDecisionTest, ANodeIsLeftOutOnce) {
  rules_.own = 2;
  last_.newcomers = ids({2});
  crashed(2, 2, CauseKind::corrupted, kCorruption);
  ended(0, 78);
  EXPECT_EQ(next().wrong, ids({2}));
}

TEST_F(NextDecisionTest, EndsIfNodesThatJoinedAreNotTheCause) {
  rules_.own = 2;
  last_.newcomers = ids({2});
  for (int code : {kStopped, kSuperseded}) {
    ended(0, code);
    EXPECT_EQ(next().end, code);
  }
  ended(2, 78);
  EXPECT_EQ(next().end, 78) << "another start has the run folder as well";
  ended(0, kPeerLost);
  EXPECT_FALSE(next().end);
  statuses_[0].step = 90;
  EXPECT_FALSE(next().end) << "they have only restored that step";
  EXPECT_EQ(next().origin.kind, CauseKind::unknown) << "and not diverged";
  statuses_[0].has_trained = true;
  EXPECT_EQ(next().end, 78) << "a step was made with them";
  statuses_[0].has_trained = false;
  last_.newcomers.clear();
  EXPECT_EQ(next().end, 78);
}

TEST_F(NextDecisionTest, NodesThatJoinedAreNewUntilAStepIsMadeWithThem) {
  rules_.own = 2;
  EXPECT_TRUE(next().newcomers.empty()) << "a member before";
  last_.newcomers = ids({2});
  EXPECT_EQ(next().newcomers, ids({2}));
  connected_ = ids({0, 1, 3});
  EXPECT_EQ(next().newcomers, ids({3}));
  connected_ = ids({0, 1, 2});
  statuses_[0].step = 90;
  EXPECT_EQ(next().newcomers, ids({2})) << "the step that was restored";
  statuses_[0].has_trained = true;
  EXPECT_TRUE(next().newcomers.empty());
}

TEST_F(NextDecisionTest, NodesThatHaveLeftDoNotComeBack) {
  rules_.min_nodes = 3;
  connected_ = ids({0, 3});
  statuses_[1].leave = true;
  EXPECT_TRUE(next_decision({last_, statuses_, connected_, fault_}, rules_).lacks_nodes) << "node 2";
  statuses_[2].leave = true;
  EXPECT_FALSE(next_decision({last_, statuses_, connected_, fault_}, rules_).lacks_nodes);
}

TEST_F(NextDecisionTest, CodesOfOlderGenerationsDoNotCount) {
  statuses_[1].decision.generation = Generation(4);
  ended(1, 78);
  EXPECT_FALSE(next().end);
}

}  // namespace
}  // namespace distdl::agent
