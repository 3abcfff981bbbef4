// SPDX-License-Identifier: Apache-2.0
// Strangers who reach a rank's worker, and ranks of another launch.
#include "tests/comm/ucx/rogue.hpp"

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include <gmock/gmock.h>

#include "tests/comm/ucx/connected_fabrics.hpp"

namespace distdl::comm {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Lets `act` send to rank 0 of a world of two, while that rank listens; then the two ranks exchange a number. Exactly
/// so many handshake messages and control messages must have been refused.
void attack(int handshake_messages, int control_messages, const std::function<void(Rogue&)>& act) {
  on_fabrics(2, [&](Fabric& fabric) {
    if (fabric.rank() == Rank(0)) {
      std::atomic<bool> over = false;
      std::thread stranger([&, address = fabric.peer_address(Rank(0)).full_address] {
        Rogue rogue(test_options(), address);
        act(rogue);
        EXPECT_FALSE(rogue.heard_anything());
        over = true;
      });
      while (!over) fabric.poll();
      stranger.join();
      const Deadline deadline = Deadline::after(paced(Milliseconds(2000)));
      while ((fabric.refused().handshake_messages < handshake_messages ||
              fabric.refused().control_messages < control_messages) &&
             !deadline.expired())
        fabric.poll();
      EXPECT_EQ(fabric.refused().handshake_messages, handshake_messages);
      EXPECT_EQ(fabric.refused().control_messages, control_messages);
    }
    const int mine = fabric.rank().value + 10;
    int theirs = 0;
    const Rank other(1 - fabric.rank().value);
    Batch batch(fabric);
    fabric.receive(batch, room_of(theirs), other, {.number = 5});
    fabric.send(batch, bytes_of(mine), other, {.number = 5});
    fabric.wait(batch, {"exchange", 5});
    EXPECT_EQ(theirs, other.value + 10);
    fabric.close();
  });
}

std::uint64_t tag_of(Channel channel, std::uint32_t generation = 0, int source = 1, std::uint32_t number = 0) {
  return wire_tag(Generation(generation), Rank(source), {.channel = channel, .number = number});
}

TEST(Rogue, GarbageOnAllChannelsIsRefusedAndCounted) {
  attack(151, 150, [](Rogue& rogue) {
    std::mt19937 random(2);
    for (int i = 0; i < 300; ++i) {
      std::string bytes(random() % 3000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      rogue.send(bytes, tag_of(i % 2 ? Channel::hello : Channel::control, 0, static_cast<int>(random() % 3)));
    }
    rogue.send(std::string(1 << 20, 'x'), tag_of(Channel::hello));  // by rendezvous
  });
}

TEST(Rogue, HelloOfAStaleGenerationOrOfNobodyGetsNothing) {
  attack(6, 0, [](Rogue& rogue) {
    rogue.send(encode(Hello{Rank(1), Rank(0), 9, {}}), tag_of(Channel::hello, 9));
    rogue.send(encode(Hello{Rank(2), Rank(0), 0, {}}), tag_of(Channel::hello));
    rogue.send(encode(Hello{Rank(-1), Rank(0), 0, {}}), tag_of(Channel::hello));
    rogue.send(encode(Hello{Rank(0), Rank(0), 0, {}}), tag_of(Channel::hello));
    rogue.send(encode(Hello{Rank(1), Rank(7), 0, {}}), tag_of(Channel::hello));
    rogue.send(encode(Proof{Rank(1), Rank(0), 0, {}, {}}), tag_of(Channel::hello));
  });
}

// The answer goes to the rank that the hello names, where it proves nothing.
TEST(Rogue, HelloInTheNameOfARankDoesNotKeepThatRankOut) {
  attack(0, 0, [](Rogue& rogue) { rogue.send(encode(Hello{Rank(1), Rank(0), 0, {}}), tag_of(Channel::hello)); });
}

TEST(Rogue, ForgedProofsAreRefused) {
  attack(5, 0, [](Rogue& rogue) {
    rogue.send(encode(Hello{Rank(1), Rank(0), 0, {}}), tag_of(Channel::hello));
    for (int i = 0; i < 5; ++i) rogue.send(encode(Proof{Rank(1), Rank(0), 0, {}, {}}), tag_of(Channel::hello));
  });
}

TEST(Rogue, UnsealedControlMessageOfALossIsRefused) {
  attack(0, 3, [](Rogue& rogue) {
    const ControlMessage lie{ControlMessage::Kind::stopped, Rank(1), Rank(1), "rank 1 is dead", ExitCode::config};
    rogue.send(encode(lie), tag_of(Channel::control));
    rogue.send(encode(lie) + std::string(kSealBytes, 'x'), tag_of(Channel::control));
    rogue.send(encode({ControlMessage::Kind::ask, Rank(70), Rank(0), ""}) + std::string(kSealBytes, 'x'),
               tag_of(Channel::control));
  });
}

TEST(Rogue, MessageWithARanksPlainTagIsNotTakenForThatRanks) {
  attack(0, 0, [](Rogue& rogue) {
    const int wrong = 666;
    rogue.send(std::string(reinterpret_cast<const char*>(&wrong), sizeof wrong), tag_of(Channel::collective, 0, 1, 5));
  });
}

TEST(OtherLaunch, IsNamedAtTheDeadline) {
  std::atomic<int> errors = 0;
  on_fabrics(
      2,
      [&](Fabric& fabric) {
        const Rank other(1 - fabric.rank().value);
        Batch batch(fabric);
        fabric.send(batch, {}, other, {});
        try {
          fabric.wait(batch, {"barrier", 1});
          ADD_FAILURE() << "the peer was let in";
        } catch (const PeerLost& lost) {
          EXPECT_EQ(lost.rank(), other);
          EXPECT_THAT(lost.what(), AllOf(HasSubstr("barrier 1"), HasSubstr("could not prove that it belongs")));
          EXPECT_EQ(fabric.refused().handshake_messages, 1);
          ++errors;
        }
        while (errors < 2) std::this_thread::yield();
      },
      with_timeout(0.5),
      [](Rank self, std::vector<PeerAddress>& addresses) {
        if (self == Rank(1)) addresses[0].secret = std::string(kSecretBytes, 'x');
      });
  EXPECT_EQ(errors, 2);
}

TEST(OtherLaunch, CardWithoutSecretIsRefused) {
  EXPECT_THROW(on_fabrics(
                   2, [](Fabric&) {}, test_options(),
                   [](Rank, std::vector<PeerAddress>& addresses) { addresses[0].secret = ""; }),
               CommError);
}

TEST(PeerAddress, OnlyRank0sHoldsTheSecret) {
  Fabric zero(test_options()), one(test_options());
  EXPECT_EQ(zero.own_address(Rank(0)).secret.size(), kSecretBytes);
  EXPECT_EQ(zero.own_address(Rank(0)).secret, zero.own_address(Rank(0)).secret);
  EXPECT_EQ(one.own_address(Rank(1)).secret, "");
}

}  // namespace
}  // namespace distdl::comm
