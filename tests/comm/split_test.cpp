// SPDX-License-Identifier: Apache-2.0
// Communicators made from communicators.
#include <algorithm>
#include <thread>

#include <gmock/gmock.h>

#include "tests/comm/connected_threads.hpp"

namespace distdl::comm {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Each() takes its time.
bool all_are(const std::vector<std::int32_t>& values, std::int32_t value) {
  return std::ranges::all_of(values, [&](std::int32_t one) { return one == value; });
}

Options options_of(int shared_memory_ranks) {
  Options options = test_options();
  options.shared_memory_ranks = shared_memory_ranks;
  return options;
}

/// So many of six ranks share memory (0: all).
class Split : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Placement, Split, ::testing::Values(0, 1, 2, 3, 4));

/// World ranks in the order of the part's ranks.
std::vector<std::int32_t> members(Communicator& part, int world_rank) {
  const std::int32_t mine = world_rank;
  std::vector<std::int32_t> all(static_cast<std::size_t>(part.size()));
  part.all_gather(std::span(&mine, 1), all).wait();
  return all;
}

TEST_P(Split, PutsRanksOfAColorInTheOrderOfTheirKeys) {
  on_threads(
      6,
      [](Communicator& world) {
        const int self = world.rank().value;
        const auto odd = world.split(self % 2, -self);
        EXPECT_EQ(members(*odd, self), self % 2 ? std::vector({5, 3, 1}) : std::vector({4, 2, 0}));
        const auto most = world.split(self == 4 ? -1 : 7, 0);
        EXPECT_EQ(most == nullptr, self == 4);
        if (most) {
          EXPECT_THAT(members(*most, self), ElementsAre(0, 1, 2, 3, 5));
        }
        const auto alone = world.split(self);
        EXPECT_THAT(members(*alone, self), ElementsAre(self));
        const auto again = odd->split(self > 2 ? 1 : 0);
        EXPECT_EQ(again->host(Rank(0)), world.host(world.rank()));
        EXPECT_EQ(static_cast<int>(members(*again, self).size()),
                  (self == 3 || self == 0 || self == 2 || self == 5) ? 2 : 1);
      },
      options_of(GetParam()));
}

TEST_P(Split, PartsAndWholeWorkAtTheSameTime) {
  on_threads(
      6,
      [](Communicator& world) {
        const int self = world.rank().value;
        const auto row = world.split(self / 3), column = world.split(self % 3);
        for (int round = 0; round < 30; ++round) {
          const std::size_t length = static_cast<std::size_t>(round * round * 61);
          std::vector<std::int32_t> a(length, 1), b(length, 1), c(length, 1), d(length, 100 + self);
          Request one = world.all_reduce(a), two = row->all_reduce(b), three = column->all_reduce(c),
                  four = row->broadcast(d, Rank(round % 3));
          // Every rank in an order of its own.
          Request* requests[] = {&one, &two, &three, &four};
          for (int i = 0; i < 4; ++i) requests[(i + self + round) % 4]->wait();
          EXPECT_TRUE(all_are(a, 6));
          EXPECT_TRUE(all_are(b, 3));
          EXPECT_TRUE(all_are(c, 2));
          EXPECT_TRUE(all_are(d, 100 + self / 3 * 3 + round % 3));
        }
        row->close();
        column->close();
      },
      options_of(GetParam()));
}

TEST_P(Split, MessagesOfDifferentCommunicatorsDoNotMix) {
  on_threads(
      6,
      [](Communicator& world) {
        const int self = world.rank().value;
        const auto same = world.split(0, self), reversed = world.split(0, -self);
        if (self > 1) return;
        const int other = 1 - self;
        const auto bytes = [](int value) { return std::vector<std::byte>(5000, std::byte(value)); };
        const auto one = bytes(1 + self), two = bytes(11 + self), three = bytes(21 + self);
        Request sends[] = {world.send(one, Rank(other), 5), same->send(two, Rank(other), 5),
                           reversed->send(three, Rank(5 - other), 5)};
        auto a = bytes(0), b = bytes(0), c = bytes(0);
        reversed->receive(c, Rank(5 - other), 5).wait();
        same->receive(b, Rank(other), 5).wait();
        world.receive(a, Rank(other), 5).wait();
        for (Request& send : sends) send.wait();
        EXPECT_EQ(a, bytes(1 + other));
        EXPECT_EQ(b, bytes(11 + other));
        EXPECT_EQ(c, bytes(21 + other));
      },
      options_of(GetParam()));
}

TEST_P(Split, SumsHaveTheSameBitsAsThoseOfAWorldOfThatSize) {
  std::vector<float> of_world(1000), of_part(1000);
  const auto sum = [](Communicator& comm, std::vector<float>& result) {
    std::vector<float> values(1000);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 1.0f / static_cast<float>(i + 1 + 1000 * static_cast<std::size_t>(comm.rank().value));
    comm.all_reduce(values).wait();
    if (comm.rank() == Rank(0)) result = values;
  };
  on_threads(
      3, [&](Communicator& comm) { sum(comm, of_world); }, options_of(0));
  on_threads(
      6,
      [&](Communicator& comm) {
        const auto part = comm.split(comm.rank().value % 2 ? -1 : 0);
        if (part) sum(*part, of_part);
      },
      options_of(GetParam()));
  EXPECT_EQ(of_world, of_part);
}

TEST_P(Split, TheLossOfARankEndsThePartsToo) {
  Options options = options_of(GetParam());
  const auto body = [](Communicator& world) {
    const int self = world.rank().value;
    const auto part = world.split(self / 3);
    if (self == 5) throw Error(ExitCode::storage, "no space left");
    // Ranks 0 to 2 have no business with rank 5 but for being of its world.
    std::vector<float> values(10'000, 1);
    while (true) part->all_reduce(values).wait();
  };
  try {
    on_threads(6, body, options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no space left"));
  }
}

TEST(Split, RanksOfANodeBecomeACommunicator) {
  on_threads(
      4,
      [](Communicator& world) {
        const auto near = world.split(world.rank().value / 2);
        EXPECT_THAT(near->description(), HasSubstr(": 2 share this node's memory"));
        const auto far = world.split(world.rank().value % 2);
        EXPECT_THAT(far->description(), HasSubstr(": 1 share this node's memory"));
      },
      options_of(2));
}

TEST(Split, ManyOneAfterTheOtherLeaveNothingBehind) {
  on_threads(3, [](Communicator& world) {
    for (int i = 0; i < 40; ++i) {
      const auto part = world.split(0, -world.rank().value);
      std::int32_t one = 1;
      part->all_reduce(std::span(&one, 1)).wait();
      EXPECT_EQ(one, 3);
    }
  });
}

/// Also of a part whose ranks have another order; and each duplicate outlives what it was made from.
TEST_P(Split, ADuplicateBelongsToAnotherThread) {
  on_threads(
      6,
      [](Communicator& world) {
        auto part = world.split(world.rank().value % 2, -world.rank().value);
        const int rank = part->rank().value;
        auto other = part->duplicate();
        EXPECT_EQ(other->rank(), part->rank());
        part.reset();
        std::thread thread([rank, other = std::move(other)] {
          for (std::int32_t i = 0; i < 50; ++i) {
            std::vector<std::int32_t> values(3000, rank + i);
            other->all_reduce(values).wait();
            EXPECT_TRUE(all_are(values, 3 + 3 * i));
          }
          other->close();
        });
        for (std::int32_t i = 0; i < 50; ++i) {
          std::vector<std::int32_t> values(3000, i);
          world.all_reduce(values).wait();
          EXPECT_TRUE(all_are(values, 6 * i));
        }
        thread.join();
      },
      options_of(GetParam()));
}

TEST(Traffic, CountsWhatACommunicatorAndItsPartsHaveMoved) {
  on_threads(2, [](Communicator& world) {
    const auto of = [&](std::string_view name) {
      const auto all = world.traffic();
      const auto found = std::ranges::find(all, name, &Traffic::name);
      return found == all.end() ? Traffic{} : *found;
    };
    const auto part = world.split(0);
    const Traffic sums = of("all_reduce"), gathers = of("all_gather"), none = of("all_to_all");
    std::vector<float> values(100, 1), all(200);
    world.all_reduce(values).wait();
    part->all_reduce(values).wait();
    part->all_gather(values, all).wait();
    EXPECT_EQ(of("all_reduce").calls, sums.calls + 2);
    EXPECT_EQ(of("all_reduce").bytes, sums.bytes + 800);
    EXPECT_GT(of("all_reduce").seconds, sums.seconds);
    EXPECT_EQ(of("all_gather").bytes, gathers.bytes + 800);
    EXPECT_EQ(none.calls, 0);
  });
}

}  // namespace
}  // namespace distdl::comm
