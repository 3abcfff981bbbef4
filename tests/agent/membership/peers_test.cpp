// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <distdl/agent/membership/peers.hpp>

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;

/// Node 0 of 5, and what it receives.
class PeersTest : public testing::Test {
 protected:
  void receive(std::uint32_t node, const std::vector<bool>& hears = std::vector<bool>(5, true)) {
    Status status;
    status.node = NodeId(node);
    status.sequence = ++sequence_;
    status.hears = hears;
    status.decision.members = members_;
    peers_.receive(status);
  }
  void pass(Milliseconds time, Milliseconds between = 100ms) {
    for (const auto end = now_ + time; now_ < end;) peers_.advance(now_ += between);
  }
  bool hears(std::uint32_t node) const { return peers_.own().hears[node]; }

  Rules rules_;
  Peers peers_{NodeId(0), 5, rules_};
  Clock::time_point now_{1000s};
  std::uint64_t sequence_ = 0;
  std::vector<NodeId> members_{NodeId(0)};  ///< of the decision that is received
};

TEST_F(PeersTest, ANodeIsFreshThenSuspectThenDead) {
  pass(100ms);
  EXPECT_FALSE(peers_.is_heard(NodeId(1)));
  receive(1);
  pass(1800ms);
  EXPECT_TRUE(peers_.is_fresh(NodeId(1)));
  pass(300ms);
  EXPECT_FALSE(peers_.is_fresh(NodeId(1)));
  EXPECT_TRUE(peers_.is_heard(NodeId(1)));
  pass(1700ms);
  EXPECT_TRUE(peers_.is_heard(NodeId(1)));
  EXPECT_TRUE(hears(1));
  pass(200ms);
  EXPECT_FALSE(peers_.is_heard(NodeId(1)));
  EXPECT_FALSE(hears(1));
  EXPECT_TRUE(peers_.is_heard(NodeId(0)));
}

TEST_F(PeersTest, OlderStatusesAreIgnored) {
  receive(1, {true, true, true, true, true});
  sequence_ = 0;
  receive(1, {false, false, false, false, false});
  EXPECT_TRUE(peers_.of(NodeId(1)).hears[0]);
}

TEST_F(PeersTest, StatusesThatCannotBeOfThisLaunchAreIgnored) {
  receive(7);
  receive(1, {true});
  receive(1, std::vector<bool>(kMostNodes + 1));
  receive(0, {false, false, false, false, false});
  EXPECT_EQ(peers_.of(NodeId(1)).sequence, 0u);
  EXPECT_EQ(peers_.own().sequence, 0u);
  members_ = {NodeId(5)};
  receive(1);
  members_.clear();
  receive(1);
  EXPECT_EQ(peers_.of(NodeId(1)).sequence, 0u);
}

TEST_F(PeersTest, AStatusTellsOfNodesThatHaveJoined) {
  pass(100ms);
  receive(6, std::vector<bool>(7, true));
  pass(100ms);
  EXPECT_EQ(peers_.all().size(), 7u);
  EXPECT_EQ(peers_.own().hears, (std::vector<bool>{true, false, false, false, false, false, true}));
  EXPECT_TRUE(peers_.are_connected(NodeId(0), NodeId(6)));
  receive(1);  // which knows 5 nodes
  pass(100ms);
  EXPECT_TRUE(hears(1));
  EXPECT_FALSE(peers_.are_connected(NodeId(1), NodeId(6)));
}

TEST_F(PeersTest, TimeWithoutRunningIsNoSilenceButNoHearingEither) {
  pass(100ms);
  receive(1);
  pass(1s);
  pass(10s, 10s);
  EXPECT_TRUE(peers_.is_heard(NodeId(1)));
  EXPECT_FALSE(peers_.is_fresh(NodeId(1)));
  EXPECT_FALSE(hears(1));
  pass(2s);
  EXPECT_TRUE(peers_.is_heard(NodeId(1)));
  pass(1s);
  EXPECT_FALSE(peers_.is_heard(NodeId(1)));
}

TEST_F(PeersTest, WhatIsFoundAfterAPauseMayBeAsOldAsThePause) {
  pass(100ms);
  receive(1);
  pass(10s, 10s);
  EXPECT_TRUE(peers_.is_heard(NodeId(1)));
  EXPECT_FALSE(hears(1));
  receive(1);
  pass(100ms);
  EXPECT_TRUE(hears(1));
}

TEST_F(PeersTest, ConnectedNodesHearEachOther) {
  pass(100ms);
  receive(1, {true, true, false, true, true});
  receive(2, {true, true, true, true, true});
  pass(100ms);
  EXPECT_TRUE(peers_.are_connected(NodeId(0), NodeId(1)));
  EXPECT_FALSE(peers_.are_connected(NodeId(1), NodeId(2)));
  EXPECT_FALSE(peers_.are_connected(NodeId(2), NodeId(1)));
  EXPECT_FALSE(peers_.are_connected(NodeId(0), NodeId(3)));
}

TEST_F(PeersTest, WhatCameBeforeTheFirstLookHasNoAge) {
  receive(1);
  pass(100ms);
  EXPECT_FALSE(peers_.is_heard(NodeId(1)));
  EXPECT_EQ(peers_.of(NodeId(1)).sequence, 1u);
}

TEST_F(PeersTest, TheWorstConnectedNodeIsLeftOut) {
  pass(100ms);
  receive(1, {true, true, false, false, true});  // does not hear 2 and 3
  for (std::uint32_t node : {2, 3, 4}) receive(node);
  pass(100ms);
  const auto id = [](std::uint32_t node) { return NodeId(node); };
  EXPECT_EQ(peers_.connected({id(0), id(1), id(2), id(3)}, {id(4)}), (std::vector{id(0), id(2), id(3), id(4)}));
  EXPECT_EQ(peers_.connected({id(1), id(2)}, {}), (std::vector{id(1)})) << "the last one of several";
  EXPECT_EQ(peers_.connected({id(0), id(1)}, {id(2), id(4)}), (std::vector{id(0), id(1), id(4)})) << "first come first";
}

}  // namespace
}  // namespace distdl::agent
