// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks, and from whichever rank sends first.
#include <algorithm>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "tests/comm/world_shape.hpp"
#include "tests/pace.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::comm {
namespace {
using ::testing::Each;
using ::testing::HasSubstr;

class Messages : public WorldShape {};
INSTANTIATE_TEST_SUITE_P(Worlds, Messages, kWorldShapes, &name_of_shape);

TEST_P(Messages, AreReceivedFromWhicheverRankSendsFirst) {
  on_ranks([](Communicator& comm) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{9}, std::size_t{300'000}}) {
      if (comm.rank() != Rank(1)) {
        comm.send(pattern(size, comm.rank().value), Rank(1), 7).wait();
      } else {
        std::vector<Rank> found;
        for (int i = 1; i < comm.size(); ++i) {
          std::vector<std::byte> bytes(size);
          comm.receive_any(bytes, 7, [&](Rank from) { found.push_back(from); }).wait();
          ASSERT_EQ(found.size(), static_cast<std::size_t>(i));
          EXPECT_EQ(bytes, pattern(size, found.back().value));
        }
        EXPECT_EQ(std::set(found.begin(), found.end()).size(), found.size());
        auto never = comm.receive_any({}, 8, {});
        EXPECT_FALSE(never.test());
      }
      comm.barrier().wait();
    }
  });
}

TEST(MessagesOfTwo, NameARankThatDoesNotSendToWhoeverReceivesFromAny) {
  const auto wait_in_vain = [](Communicator& comm) {
    comm.barrier().wait();
    if (comm.rank() == Rank(1)) return std::this_thread::sleep_for(Milliseconds(2000));
    try {
      comm.receive_any({}, 7, {}, {.timeout = Milliseconds(200)}).wait();
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank(), Rank(1));
      EXPECT_THAT(lost.what(), HasSubstr("receive from any rank with tag 7"));
      throw;
    }
  };
  EXPECT_THROW(on_threads(2, wait_in_vain), PeerLost);
}

TEST_P(Messages, ACancelledReceiveLeavesItsMemoryAlone) {
  on_ranks([](Communicator& comm) {
    if (comm.rank() == Rank(0)) {
      std::vector<std::byte> given_up(100'000), taken(100'000);
      comm.receive(given_up, Rank(1), 9).cancel();
      comm.barrier().wait();
      comm.receive(taken, Rank(1), 9).wait();
      EXPECT_EQ(taken, pattern(100'000, 4));
      EXPECT_THAT(given_up, Each(std::byte{0}));
    } else {
      comm.barrier().wait();
      if (comm.rank() == Rank(1)) comm.send(pattern(100'000, 4), Rank(0), 9).wait();
    }
    comm.barrier().wait();
  });
}

TEST_P(Messages, AmongAllPairsInBothDirectionsAtOnce) {
  on_ranks([](Communicator& comm) {
    const int self = comm.rank().value;
    for (std::size_t size : {0, 1, 63, 8000, 9000, 70'000, 1'000'003}) {
      const auto bytes_of = [&](int from, int to) { return pattern(size, 100 * from + to); };
      std::vector<std::vector<std::byte>> out, in;
      for (int r = 0; r < comm.size(); ++r) {
        out.push_back(bytes_of(self, r));
        in.emplace_back(size);
      }
      std::vector<Request> requests;
      for (int r = 0; r < comm.size(); ++r) {
        if (r == self) continue;
        requests.push_back(comm.send(out[static_cast<std::size_t>(r)], Rank(r), 3));
        requests.push_back(comm.receive(in[static_cast<std::size_t>(r)], Rank(r), 3));
      }
      for (Request& request : requests) request.wait();
      for (int r = 0; r < comm.size(); ++r) {
        if (r == self) continue;
        EXPECT_EQ(in[static_cast<std::size_t>(r)], bytes_of(r, self)) << size;
      }
    }
  });
}

TEST_P(Messages, WithOneTagArriveInOrder) {
  on_ranks([](Communicator& comm) {
    constexpr int kMessages = 200;
    if (comm.rank() == Rank(0)) {
      std::vector<std::vector<std::byte>> out;
      std::vector<Request> requests;
      for (int i = 0; i < kMessages; ++i) out.push_back(pattern(static_cast<std::size_t>(i * 101), i));
      for (auto& one : out) requests.push_back(comm.send(one, Rank(1), (1u << 28) - 1));
      for (auto& one : requests) one.wait();
    } else if (comm.rank() == Rank(1)) {
      for (int i = 0; i < kMessages; ++i) {
        std::vector<std::byte> in(static_cast<std::size_t>(i * 101));
        comm.receive(in, Rank(0), (1u << 28) - 1).wait();
        EXPECT_EQ(in, pattern(in.size(), i));
      }
    }
    comm.barrier().wait();
  });
}

/// More than a mailbox holds, short and long ones with few tags, while the receiver does something else.
TEST_P(Messages, WaitForReceivesInAnyOrderOfTags) {
  on_ranks([](Communicator& comm) {
    constexpr int kMessages = 60, kTags = 4;
    const auto size_of = [](int i) { return static_cast<std::size_t>(i % 7 * (i % 7) * 2000); };
    const Rank to((comm.rank().value + 1) % comm.size()), from((comm.rank().value + comm.size() - 1) % comm.size());
    std::vector<std::vector<std::byte>> out, in;
    std::vector<Request> sends, receives;
    for (int i = 0; i < kMessages; ++i) out.push_back(pattern(size_of(i), 100 * to.value + i));
    for (int i = 0; i < kMessages; ++i)
      sends.push_back(comm.send(out[static_cast<std::size_t>(i)], to, static_cast<std::uint32_t>(i % kTags)));
    comm.barrier().wait();
    for (int i = 0; i < kMessages; ++i) in.emplace_back(size_of(i));
    for (int tag = kTags - 1; tag >= 0; --tag)
      for (int i = tag; i < kMessages; i += kTags)
        receives.push_back(comm.receive(in[static_cast<std::size_t>(i)], from, static_cast<std::uint32_t>(tag)));
    for (Request& request : receives) request.wait();
    for (Request& request : sends) request.wait();
    for (int i = 0; i < kMessages; ++i)
      EXPECT_EQ(in[static_cast<std::size_t>(i)], pattern(size_of(i), 100 * comm.rank().value + i)) << i;
    comm.barrier().wait();
  });
}

/// They wait for nobody: the receiver takes them out of its mailbox while it waits for something else.
TEST_P(Messages, ShortOnesLeaveWhileTheReceiverIsInAnotherWait) {
  on_ranks([](Communicator& comm) {
    constexpr std::uint32_t kMessages = 100;
    std::byte one{};
    if (comm.rank() == Rank(0))
      for (std::uint32_t i = 0; i < kMessages; ++i) comm.send({&one, 1}, Rank(1), i).wait();
    comm.barrier().wait();
    if (comm.rank() == Rank(1))
      for (std::uint32_t i = kMessages; i-- > 0;) comm.receive({&one, 1}, Rank(0), i).wait();
    comm.barrier().wait();
  });
}

}  // namespace
}  // namespace distdl::comm
