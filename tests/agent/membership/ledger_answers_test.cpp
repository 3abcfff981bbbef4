// SPDX-License-Identifier: Apache-2.0
// What agents do with the answers of the ledger, and without.
#include <gtest/gtest.h>

#include "tests/agent/membership/launch_of_agents.hpp"

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;

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

}  // namespace
}  // namespace distdl::agent
