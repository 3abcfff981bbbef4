// SPDX-License-Identifier: Apache-2.0
// Requests: several under way, given up, destroyed.
#include <algorithm>
#include <random>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>
#include <sys/statvfs.h>

#include "tests/comm/world_shape.hpp"
#include "tests/pace.hpp"
#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/comm/algorithms/registry.hpp>

namespace distdl::comm {
namespace {
using ::testing::HasSubstr;

/// Each() takes its time.
bool all_are(std::span<const float> values, float value) {
  return std::ranges::all_of(values, [&](float one) { return one == value; });
}

float sum_of_ranks(const Communicator& comm) {
  return static_cast<float>(comm.size() * (comm.size() + 1) / 2);
}

void expect_right_sum(Communicator& comm, std::size_t floats = 1000) {
  std::vector<float> values(floats, static_cast<float>(comm.rank().value + 1));
  comm.all_reduce(values).wait();
  EXPECT_TRUE(all_are(values, sum_of_ranks(comm)));
}

class Requests : public WorldShape {};
INSTANTIATE_TEST_SUITE_P(Worlds, Requests, kWorldShapes, &name_of_shape);

TEST_P(Requests, ManyMoreThanTheNodesMemoryHasRoomForAreUnderWay) {
  on_ranks([](Communicator& comm) {
    constexpr std::size_t kOperations = 60;
    std::vector<std::vector<float>> values;
    for (std::size_t i = 0; i < kOperations; ++i)
      values.emplace_back(i * 37, static_cast<float>((comm.rank().value + 1) * (i + 1)));
    std::vector<Request> requests;
    for (auto& one : values) requests.push_back(comm.all_reduce(one));
    std::mt19937 random(static_cast<unsigned>(comm.rank().value));
    std::shuffle(requests.begin(), requests.end(), random);
    for (Request& request : requests) request.wait();
    for (std::size_t i = 0; i < kOperations; ++i)
      EXPECT_TRUE(all_are(values[i], sum_of_ranks(comm) * static_cast<float>(i + 1)));
  });
}

TEST_P(Requests, AnAverageOverLeavesLeavesNothingBehindForTheNextSum) {
  on_ranks([](Communicator& comm) {
    Leaves leaves{comm.size(), {}};
    for (int r = 0; r < comm.size(); ++r) leaves.ranges.push_back({r, 1});
    const auto reduce = [&]<class T>(T mine, Reduction reduction) {
      std::vector<T> values(50, mine);
      const Vector all(values);
      const ConstVector partial = all;
      comm.all_reduce(leaves, {&partial, 1}, all, {.reduction = reduction}).wait();
      return values.back();
    };
    const int mine = comm.rank().value + 1, sum = comm.size() * (comm.size() + 1) / 2;
    EXPECT_EQ(reduce(static_cast<float>(mine), Reduction::average),
              static_cast<float>(sum) / static_cast<float>(comm.size()));
    EXPECT_EQ(reduce(static_cast<float>(mine), Reduction::sum), static_cast<float>(sum));
    EXPECT_EQ(reduce(mine, Reduction::maximum), comm.size());
  });
}

TEST_P(Requests, AskingAloneBringsThemToTheirEnd) {
  on_ranks([](Communicator& comm) {
    std::vector<float> one(100'000, 1), two(3, 2);
    Request first = comm.all_reduce(one), second = comm.all_reduce(two);
    while (!second.test() || !first.test()) std::this_thread::yield();
    EXPECT_TRUE(first.test()) << "a request that is done stays done";
    EXPECT_TRUE(all_are(one, static_cast<float>(comm.size())));
    EXPECT_TRUE(all_are(two, static_cast<float>(2 * comm.size())));
  });
}

TEST_P(Requests, WaitingTwiceAndMovingDoNoHarm) {
  on_ranks([](Communicator& comm) {
    std::vector<float> values(5000, 1);
    Request request = comm.all_reduce(values);
    Request moved = std::move(request);
    Request* const same = &moved;
    moved = std::move(*same);
    request.wait();  // NOLINT(bugprone-use-after-move): it is empty, and may be asked
    moved.wait();
    moved.wait();
    EXPECT_TRUE(all_are(values, static_cast<float>(comm.size())));
    moved = comm.barrier();
    moved.wait();
  });
}

TEST_P(Requests, AWaitEndsWhenAnotherThreadStopsIt) {
  on_ranks([](Communicator& comm) {
    std::vector<float> values(5000, 1);
    if (comm.rank() == Rank(0)) std::this_thread::sleep_for(paced(Milliseconds(100)));
    Request request = comm.all_reduce(values);
    if (comm.rank() != Rank(0)) {  // which makes the others wait
      std::stop_source source;
      const std::jthread stopper([&] { source.request_stop(); });
      const Stopwatch watch;
      EXPECT_FALSE(request.wait(source.get_token()));
      EXPECT_LT(watch.seconds(), paced(0.09));
    }
    EXPECT_TRUE(request.wait(std::stop_token()));
    EXPECT_TRUE(request.wait(std::stop_source().get_token())) << "a request that is done stays done";
    EXPECT_TRUE(all_are(values, static_cast<float>(comm.size())));
  });
}

TEST_P(Requests, ThePredictedTimeOfASumGrowsWithItsSize) {
  on_ranks([](Communicator& comm) {
    Leaves leaves{comm.size(), {}};
    for (int r = 0; r < comm.size(); ++r) leaves.ranges.push_back({r, 1});
    double before = 0;
    for (const std::size_t count : {1, 10'000, 1'000'000, 100'000'000}) {
      const double seconds = comm.predicted_seconds(leaves, count, DataType::float32);
      EXPECT_GT(seconds, before);
      double least = seconds, most = seconds;
      comm.all_reduce(std::span(&least, 1), {.reduction = Reduction::minimum}).wait();
      comm.all_reduce(std::span(&most, 1), {.reduction = Reduction::maximum}).wait();
      EXPECT_EQ(least, most) << "the same on all ranks";
      before = seconds;
    }
  });
}

TEST_P(Requests, WhereARankHasNoMemoryNoneGetsItAndAllGoOn) {
  struct statvfs room {};
  if (::statvfs("/dev/shm", &room) != 0 || room.f_blocks == 0) GTEST_SKIP() << "/dev/shm has no limit here";
  on_ranks([](Communicator& comm) {
    constexpr std::size_t kTooMuch = std::size_t{1} << 39;
    EXPECT_THROW(comm.allocate(comm.rank() == Rank(1) ? kTooMuch : 1000), NoMemory);
    const tensor::Buffer shared = comm.allocate(1 << 20);
    std::ranges::fill(shared.as<float>(), static_cast<float>(comm.rank().value + 1));
    comm.all_reduce(shared.as<float>()).wait();
    EXPECT_TRUE(all_are(shared.as<float>(), sum_of_ranks(comm)));
  });
}

TEST_P(Requests, RanksOfOneNodeHaveOneMemoryInCommon) {
  on_ranks([](Communicator& comm) {
    EXPECT_EQ(comm.shares_memory(), GetParam().second == 0);
    if (!comm.shares_memory()) return;
    constexpr std::size_t kEach = 1000;
    const auto size = static_cast<std::size_t>(comm.size());
    const tensor::Buffer common = comm.allocate_common(kEach * size * sizeof(float));
    const auto own = common.as<float>().subspan(static_cast<std::size_t>(comm.rank().value) * kEach, kEach);
    std::ranges::fill(own, static_cast<float>(comm.rank().value));
    comm.barrier().wait();
    for (std::size_t r = 0; r < size; ++r)
      EXPECT_TRUE(all_are(common.as<float>().subspan(r * kEach, kEach), static_cast<float>(r)));
    comm.barrier().wait();
  });
}

// Messages of that length leave at once; the connection does not outlive a longer one that is given up half-way.
TEST_P(Requests, WhatAllRanksGiveUpDisturbsNothingElse) {
  on_ranks([](Communicator& comm) {
    const tensor::Buffer shared = comm.allocate(1 << 20);
    for (int round = 0; round < 10; ++round) {
      std::vector<float> plain(60 * (round + 1), 1), kept(777, static_cast<float>(comm.rank().value + 1));
      std::ranges::fill(shared.as<float>(), 1.0f);
      Request lost = comm.all_reduce(plain);
      Request stays = comm.all_reduce(kept);
      { const Request dropped = comm.all_reduce(shared.as<float>().first(GetParam().second == 0 ? 1 << 18 : 500)); }
      lost.cancel();
      stays.wait();
      EXPECT_TRUE(all_are(kept, sum_of_ranks(comm)));
      comm.barrier().wait();  // until all have given up, others access the shared memory
    }
    expect_right_sum(comm);
  });
}

TEST_P(Requests, WhatOneRankGivesUpFailsOnTheOthersAtTheirDeadline) {
  Options options = test_options();
  options.timeout_seconds = paced(0.5);
  std::atomic<int> failed = 0;
  const auto body = [&](Communicator& comm) {
    if (comm.rank() == Rank(0)) {
      { const Request dropped = comm.barrier(); }
      std::this_thread::sleep_for(paced(Milliseconds(1400)));
      return;
    }
    const Stopwatch stopwatch;
    std::vector<float> values(100'000, 1);
    EXPECT_THROW(
        {
          comm.barrier().wait();
          comm.all_reduce(values).wait();
        },
        PeerLost);
    EXPECT_LT(stopwatch.seconds(), paced(1.5));
    ++failed;
  };
  try {
    on_ranks(body, options);
  } catch (const CommError&) {
    // rank 0 learns of it, if only when it says close
  }
  EXPECT_EQ(failed, GetParam().first - 1);
}

TEST_P(Requests, WrongInputIsRefusedAndHarmsNothing) {
  on_ranks([](Communicator& comm) {
    std::vector<float> four(4), five(5);
    std::vector<double> doubles(4);
    std::vector<std::int32_t> whole(4);
    const std::vector<std::size_t> short_counts(static_cast<std::size_t>(comm.size()) - 1, 1);
    const Rank outside(comm.size());
    CallOptions average, impossible;
    average.reduction = Reduction::average;
    impossible.choice = Choice{.algorithm = algorithm_of("dissemination")};
    EXPECT_THROW(comm.all_reduce(four, five).wait(), ConfigError);
    EXPECT_THROW(comm.all_reduce(four, doubles).wait(), ConfigError);
    EXPECT_THROW(comm.all_reduce(whole, average).wait(), ConfigError);
    EXPECT_THROW(comm.all_reduce(four, impossible).wait(), ConfigError);
    EXPECT_THROW(comm.all_gather(four, five).wait(), ConfigError);
    EXPECT_THROW(comm.all_gather(four, five, short_counts).wait(), ConfigError);
    EXPECT_THROW(comm.broadcast(four, outside).wait(), ConfigError);
    EXPECT_THROW(comm.broadcast(four, Rank(-1)).wait(), ConfigError);
    EXPECT_THROW(comm.send({}, comm.rank(), 1).wait(), ConfigError);
    EXPECT_THROW(comm.send({}, outside, 1).wait(), ConfigError);
    EXPECT_THROW(comm.receive({}, Rank(comm.rank() == Rank(0) ? 1 : 0), 1u << 28).wait(), ConfigError);
    expect_right_sum(comm);
  });
}

TEST_P(Requests, MemoryOfTheNodeIsZeroedAlignedAndOfAnySize) {
  on_ranks([](Communicator& comm) {
    std::vector<tensor::Buffer> buffers;
    for (std::size_t bytes : {1, 4096, 100'001, 0, 3 << 20}) {
      buffers.push_back(comm.allocate(bytes * static_cast<std::size_t>(comm.rank().value + 1)));
      const auto floats = buffers.back().as<float>();
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(floats.data()) % 64, 0u);
      EXPECT_TRUE(all_are(floats, 0.0f));
      std::ranges::fill(floats, 1.0f);
      const auto sum = floats.first(std::min<std::size_t>(floats.size(), bytes / sizeof(float)));
      comm.all_reduce(sum).wait();
      EXPECT_TRUE(all_are(sum, static_cast<float>(comm.size())));
      comm.barrier().wait();
      if (buffers.size() == 3) buffers.erase(buffers.begin());
    }
  });
}

TEST_P(Requests, AnAllToAllInPlaceMustNotOverwriteWhatIsNotYetSent) {
  on_ranks([](Communicator& comm) {
    const auto size = static_cast<std::size_t>(comm.size());
    std::vector<std::int32_t> values(2 * size);
    const std::vector<std::size_t> twos(size, 2);
    std::vector<std::size_t> others = twos;
    ++others.front();
    --others.back();
    EXPECT_THROW(comm.all_to_all(values, values, twos, others).wait(), ConfigError);
    const std::span all(values);
    EXPECT_THROW(comm.all_to_all(Vector(all.first(size)), Vector(all.subspan(1, size))).wait(), ConfigError);
    for (const auto& counts : {std::vector<std::size_t>{}, twos}) {
      std::fill(values.begin(), values.end(), comm.rank().value);
      comm.all_to_all(values, values, counts, counts).wait();
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<std::int32_t>(i / 2));
    }
  });
}

/// One rank alone, all, or none: all of them must decide alike how they exchange the blocks.
TEST_P(Requests, AnAllToAllInSharedMemoryMayBeInPlaceOnSomeRanksOnly) {
  on_ranks([](Communicator& comm) {
    constexpr std::size_t kEach = 10'000;
    const auto size = static_cast<std::size_t>(comm.size());
    const tensor::Buffer one = comm.allocate(kEach * size * sizeof(float)), two = comm.allocate(one.bytes());
    for (int in_place = 0; in_place < 4; ++in_place) {
      const auto values = one.as<float>(), result = (in_place >> comm.rank().value % 2) & 1 ? values : two.as<float>();
      std::ranges::fill(result, -1.0f);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(static_cast<std::size_t>(comm.rank().value) * size + i / kEach);
      comm.all_to_all(Vector(values), Vector(result)).wait();
      for (std::size_t r = 0; r < size; ++r)
        EXPECT_TRUE(all_are(result.subspan(r * kEach, kEach),
                            static_cast<float>(r * size + static_cast<std::size_t>(comm.rank().value))));
    }
  });
}

/// The other has never heard of it, and leaves.
TEST(Requests, ClosingDoesNotAwaitWhoWasOnlyAskedInVain) {
  const Stopwatch stopwatch;
  on_threads(3, [](Communicator& comm) {
    std::vector<std::byte> bytes(8);
    if (comm.rank() != Rank(2)) comm.receive(bytes, Rank(2), 1).cancel();
  });
  EXPECT_LT(stopwatch.seconds(), 0.5 * test_options().timeout_seconds);
}

/// Nobody here ever waits for the rank that gives up, nor for any other.
TEST(Requests, ARankThatNeverWaitsNoticesALoss) {
  const Stopwatch stopwatch;
  EXPECT_THROW(on_threads(3,
                          [](Communicator& comm) {
                            const auto alone = comm.split(comm.rank().value);
                            comm.barrier().wait();
                            if (comm.rank() == Rank(1)) throw StorageError("no room");
                            std::vector<float> values(4);
                            const Stopwatch since;
                            while (since.seconds() < test_options().timeout_seconds) alone->all_reduce(values).wait();
                            ADD_FAILURE() << "rank " << comm.rank().value << " has noticed nothing";
                          }),
               Error);
  EXPECT_LT(stopwatch.seconds(), 0.5 * test_options().timeout_seconds);
}

TEST(Requests, InAWorldOfOneAllIsDoneAtOnce) {
  on_threads(1, [](Communicator& comm) {
    const std::vector<float> three{1, 2, 3};
    std::vector<float> result(3);
    CallOptions average;
    average.reduction = Reduction::average;
    const auto expect_copied = [&](Request request) {
      EXPECT_TRUE(request.test());
      request.wait();
      EXPECT_EQ(result, three);
      std::ranges::fill(result, 0.0f);
    };
    const Rank self(0);
    expect_copied(comm.all_reduce(three, result));
    expect_copied(comm.all_reduce(three, result, average));
    expect_copied(comm.reduce(three, result, self));
    expect_copied(comm.reduce_scatter(three, result));
    expect_copied(comm.all_gather(three, result));
    expect_copied(comm.all_to_all(three, result));
    expect_copied(comm.gather(three, result, self));
    expect_copied(comm.scatter(three, result, self));
    comm.barrier().wait();
    comm.broadcast(result, self).wait();
    EXPECT_EQ(comm.all_gather_strings("mine"), std::vector<std::string>{"mine"});
    EXPECT_EQ(comm.allocate(100).bytes(), 100u);
    const auto part = comm.split(0);
    part->barrier().wait();
    part->close();
  });
}

}  // namespace
}  // namespace distdl::comm
