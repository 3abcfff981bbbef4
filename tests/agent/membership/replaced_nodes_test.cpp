// SPDX-License-Identifier: Apache-2.0
// Spares instead of nodes that fail, may fail, or have wrong bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/agent/membership/launch_of_agents.hpp"

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace distdl::agent
