// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/processes/rank_one_sided.hpp"

#include <algorithm>
#include <cstring>

namespace distdl::comm {
namespace {
constexpr std::uint16_t kNumber = 7;
constexpr int kRounds = 10;

void expect_all(std::span<const float> values, int wanted, const char* what) {
  for (float value : values)
    require<InternalError>(value == static_cast<float>(wanted), "{}: {} instead of {}", what, value, wanted);
}

/// Puts into one block of each rank's memory, of which there is one for each rank.
void put_and_get(Communicator& comm, RemoteMemory& remote, std::span<const float> memory, std::vector<float>& mine) {
  const int self = comm.rank().value, value = static_cast<int>(mine.front());
  const std::size_t own_block = static_cast<std::size_t>(self) * mine.size() * sizeof(float);
  for (Rank rank(0); rank.value < comm.size(); ++rank.value) {
    remote.put(std::as_bytes(std::span(mine)), rank, own_block).wait();
    remote.flush(rank).wait();
  }
  comm.barrier().wait();
  for (int r = 0; r < comm.size(); ++r)
    expect_all(memory.subspan(static_cast<std::size_t>(r) * mine.size(), mine.size()), value - self + r, "put");
  std::vector<float> got(mine.size(), -1);
  for (Rank rank(0); rank.value < comm.size(); ++rank.value) {
    remote.get(std::as_writable_bytes(std::span(got)), rank, own_block).wait();
    expect_all(got, value, "get");
  }
  comm.barrier().wait();
}

/// Handlers run in the waits of their rank.
void wait_for_all(Communicator& comm, const int& messages, int wanted) {
  for (int least = 0; least < wanted;) {
    least = messages;
    comm.all_reduce(Vector(&least, 1, DataType::int32), {.reduction = Reduction::minimum}).wait();
  }
  require<InternalError>(messages == wanted, "{} messages instead of {}", messages, wanted);
}

}  // namespace

void put_get_and_send_messages(Communicator& comm, std::size_t floats) {
  const int self = comm.rank().value, size = comm.size();
  std::vector<float> memory(floats * static_cast<std::size_t>(size), -1), mine(floats);
  int messages = 0, round = 0;
  comm.on_message(kNumber, [&](Rank from, std::string_view header, std::span<const std::byte> payload) {
    const int value = from.value + round * size;
    require<InternalError>(header == fmt::format("value {}", value), "a message with header \"{}\"", header);
    std::vector<float> values(payload.size() / sizeof(float));
    std::memcpy(values.data(), payload.data(), payload.size());
    require<InternalError>(values.size() == floats, "a message of {} floats", values.size());
    expect_all(values, value, "message");
    ++messages;
  });
  auto remote = comm.expose(std::as_writable_bytes(std::span(memory)));
  for (; round < kRounds; ++round) {
    std::ranges::fill(mine, static_cast<float>(self + round * size));
    put_and_get(comm, remote, memory, mine);
    for (Rank rank(0); rank.value < size; ++rank.value)
      if (rank != comm.rank())
        comm.send_message(rank, kNumber, fmt::format("value {}", mine.front()), std::as_bytes(std::span(mine))).wait();
    wait_for_all(comm, messages, (size - 1) * (round + 1));
    comm.barrier().wait();  // nobody is in the next round while another still waits for this one's messages
  }
  comm.on_message(kNumber, {});
}

}  // namespace distdl::comm
