// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <thread>

#include <gmock/gmock.h>

#include "tests/comm/connected_threads.hpp"

namespace distdl::comm {
namespace {

std::vector<std::int64_t> numbers(int seed, std::size_t count) {
  std::vector<std::int64_t> values(count);
  std::iota(values.begin(), values.end(), 1000 * seed);
  return values;
}

/// Each rank puts a row into the next one's memory and gets one from the one before.
void pass_rows_on(Communicator& comm, std::size_t count) {
  const int size = comm.size(), rank = comm.rank().value;
  const Rank next((rank + 1) % size), before((rank + size - 1) % size);
  std::vector<std::int64_t> memory(2 * count, -1);
  const auto own = numbers(rank, count);
  std::copy(own.begin(), own.end(), memory.begin());
  RemoteMemory remote = comm.expose(std::as_writable_bytes(std::span(memory)));
  EXPECT_EQ(remote.size_of(next), memory.size() * sizeof(std::int64_t));
  comm.barrier().wait();

  remote.put(std::as_bytes(std::span(own)), next, count * sizeof(std::int64_t)).wait();
  remote.flush(next).wait();
  std::vector<std::int64_t> row(count);
  remote.get(std::as_writable_bytes(std::span(row)), before, 0).wait();
  comm.barrier().wait();
  EXPECT_EQ(row, numbers(before.value, count));
  EXPECT_EQ(std::vector(memory.begin() + static_cast<std::ptrdiff_t>(count), memory.end()),
            numbers(before.value, count));
  comm.barrier().wait();
}

class RemoteMemoryOn : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, RemoteMemoryOn, ::testing::Values(1, 2, 3, 4));

TEST_P(RemoteMemoryOn, CarriesRowsBothWays) {
  on_threads(GetParam(), [](Communicator& comm) {
    for (std::size_t count : {0, 1, 1000, 300'000}) pass_rows_on(comm, count);
  });
}

TEST(RemoteMemory, CountsTheRanksOfASplitCommunicator) {
  on_threads(4, [](Communicator& comm) {
    const auto half = comm.split(comm.rank().value % 2);
    pass_rows_on(*half, 100);
    half->close();
  });
}

TEST(RemoteMemory, RefusesBytesOutsideAndRanksThatAreNotThere) {
  on_threads(2, [](Communicator& comm) {
    std::vector<std::byte> memory(64), bytes(32);
    RemoteMemory remote = comm.expose(memory);
    EXPECT_THROW(remote.put(bytes, Rank(1), 33).wait(), ConfigError);
    EXPECT_THROW(remote.get(bytes, Rank(2), 0).wait(), ConfigError);
    remote.put(bytes, Rank(1), 32).wait();
    remote.flush(Rank(1)).wait();
    comm.barrier().wait();
  });
}

TEST(ActiveMessage, ReachesItsHandler) {
  on_threads(3, [](Communicator& comm) {
    int heard = 0;
    comm.on_message(7, [&](Rank from, std::string_view header, std::span<const std::byte> payload) {
      EXPECT_EQ(header, "row " + std::to_string(from.value));
      EXPECT_EQ(payload.size(), 100'000u * static_cast<unsigned>(from.value + 1));
      ++heard;
    });
    comm.barrier().wait();
    std::vector<std::byte> payload(100'000u * static_cast<unsigned>(comm.rank().value + 1));
    for (int r = 0; r < comm.size(); ++r)
      if (Rank(r) != comm.rank())
        comm.send_message(Rank(r), 7, "row " + std::to_string(comm.rank().value), payload).wait();
    const Deadline deadline = Deadline::after(paced(Milliseconds(10'000)));
    Request never = comm.receive(payload, Rank((comm.rank().value + 1) % comm.size()), 99);
    while (heard < comm.size() - 1 && !deadline.expired()) static_cast<void>(never.test());
    EXPECT_EQ(heard, comm.size() - 1);
    never.cancel();
    comm.barrier().wait();
  });
}

TEST(ActiveMessage, IsServedByAThreadThatSleepsUntilOneComesOrItIsWoken) {
  on_threads(2, [](Communicator& comm) {
    bool is_heard = false;
    comm.on_message(7, [&](Rank, std::string_view, std::span<const std::byte>) { is_heard = true; });
    comm.barrier().wait();
    const auto longest = paced(Milliseconds(20'000));
    const Deadline deadline = Deadline::after(longest);
    if (comm.rank() == Rank(0)) {
      std::jthread([&] { comm.wake(); }).join();
      comm.await_messages(2 * longest);
      comm.send_message(Rank(1), 7, "woken", {}).wait();
    }
    while (comm.rank() == Rank(1) && !is_heard) comm.await_messages(2 * longest);
    EXPECT_FALSE(deadline.expired());
    comm.barrier().wait();
  });
}

TEST(ActiveMessage, BelongsToTheWholeWorld) {
  on_threads(2, [](Communicator& comm) {
    const auto part = comm.split(0);
    EXPECT_THROW(part->on_message(1, {}), ConfigError);
    part->close();
  });
}

}  // namespace
}  // namespace distdl::comm
