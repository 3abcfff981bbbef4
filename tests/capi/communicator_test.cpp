// SPDX-License-Identifier: Apache-2.0
#include <barrier>
#include <complex>
#include <cstring>
#include <numeric>

#include "tests/capi/capi_fixture.hpp"

namespace distdl::capi {
namespace {
using testing::Each;
using testing::ElementsAre;

class Communicators : public CApiTest {};

TEST_F(Communicators, KnowTheirRanks) {
  on_ranks(3, [](distdl_comm* comm) {
    EXPECT_EQ(3, size_of(comm));
    int local_rank = -1, local_size = 0;
    DISTDL_SUCCEEDS(distdl_comm_local_rank(comm, &local_rank, &local_size));
    EXPECT_EQ(rank_of(comm), local_rank);
    EXPECT_EQ(3, local_size);
    const char* host = nullptr;
    DISTDL_SUCCEEDS(distdl_comm_host(comm, 0, &host));
    EXPECT_STRNE("", host);
  });
}

TEST_F(Communicators, WithoutALauncherAreOneRank) {
  distdl_comm* comm = nullptr;
  DISTDL_SUCCEEDS(distdl_comm_create("comm.interface = \"lo\"\n", &comm));
  EXPECT_EQ(1, size_of(comm));
  DISTDL_SUCCEEDS(distdl_comm_close(comm));
}

TEST_F(Communicators, Reduce) {
  on_ranks(3, [](distdl_comm* comm) {
    const int rank = rank_of(comm);
    const std::vector<float> values(1000, static_cast<float>(rank + 1));
    std::vector<float> result(1000);
    const auto all_reduce = [&](int reduction) {
      return distdl_all_reduce(comm, values.data(), result.data(), 1000, DISTDL_F32, reduction, nullptr);
    };
    DISTDL_SUCCEEDS(all_reduce(DISTDL_SUM));
    EXPECT_THAT(result, Each(6));
    DISTDL_SUCCEEDS(all_reduce(DISTDL_AVERAGE));
    EXPECT_THAT(result, Each(2));
    DISTDL_SUCCEEDS(all_reduce(DISTDL_MAX));
    EXPECT_THAT(result, Each(3));
    DISTDL_SUCCEEDS(all_reduce(DISTDL_MIN));
    EXPECT_THAT(result, Each(1));
    std::int64_t number = rank;
    DISTDL_SUCCEEDS(distdl_all_reduce(comm, nullptr, &number, 1, DISTDL_I64, DISTDL_SUM, nullptr));
    EXPECT_EQ(3, number);
    double root = rank + 0.5;
    DISTDL_SUCCEEDS(distdl_reduce(comm, &root, rank == 2 ? &root : nullptr, 1, DISTDL_F64, DISTDL_SUM, 2, nullptr));
    EXPECT_EQ(rank == 2 ? 4.5 : rank + 0.5, root);
    DISTDL_SUCCEEDS(distdl_broadcast(comm, &root, 1, DISTDL_F64, 2, nullptr));
    EXPECT_EQ(4.5, root);
  });
}

TEST_F(Communicators, ExchangeSlices) {
  on_ranks(2, [](distdl_comm* comm) {
    const int rank = rank_of(comm);
    const std::vector<std::size_t> counts{1, 3};
    const std::vector<std::int32_t> own(counts[rank], 10 * (rank + 1));
    std::vector<std::int32_t> all(4);
    DISTDL_SUCCEEDS(distdl_all_gather(comm, own.data(), all.data(), 0, counts.data(), DISTDL_I32, nullptr));
    EXPECT_THAT(all, ElementsAre(10, 20, 20, 20));
    all.assign(4, rank);
    DISTDL_SUCCEEDS(distdl_gather(comm, rank == 0 ? nullptr : own.data(), rank == 0 ? all.data() : nullptr, 0,
                                  counts.data(), DISTDL_I32, 0, nullptr));
    EXPECT_THAT(all, rank == 0 ? ElementsAre(0, 20, 20, 20) : ElementsAre(1, 1, 1, 1));
    std::vector<std::int32_t> slice(2);
    std::iota(all.begin(), all.end(), 0);
    DISTDL_SUCCEEDS(
        distdl_scatter(comm, rank == 0 ? all.data() : nullptr, slice.data(), 2, nullptr, DISTDL_I32, 0, nullptr));
    EXPECT_THAT(slice, ElementsAre(2 * rank, 2 * rank + 1));
    DISTDL_SUCCEEDS(distdl_reduce_scatter(comm, all.data(), slice.data(), 2, nullptr, DISTDL_I32, DISTDL_SUM, nullptr));
    EXPECT_THAT(slice, ElementsAre(4 * rank, 4 * rank + 2));
    DISTDL_SUCCEEDS(distdl_all_to_all(comm, nullptr, all.data(), 2, nullptr, nullptr, DISTDL_I32, nullptr));
    EXPECT_THAT(all, ElementsAre(2 * rank, 2 * rank + 1, 2 * rank, 2 * rank + 1));
  });
}

TEST_F(Communicators, SendMessagesBesideOtherWork) {
  on_ranks(2, [](distdl_comm* comm) {
    const int rank = rank_of(comm), other = 1 - rank;
    std::string sent = "from " + std::to_string(rank), received(6, ' ');
    distdl_request* requests[3] = {};
    DISTDL_SUCCEEDS(distdl_receive(comm, received.data(), 6, other, 7, &requests[0]));
    DISTDL_SUCCEEDS(distdl_send(comm, sent.data(), 6, other, 7, &requests[1]));
    DISTDL_SUCCEEDS(distdl_barrier(comm, &requests[2]));
    EXPECT_NE(nullptr, requests[0]);
    DISTDL_SUCCEEDS(distdl_wait(&requests[0], -1));
    DISTDL_SUCCEEDS(distdl_wait(&requests[1], 20));
    for (int done = 0; done == 0;) DISTDL_SUCCEEDS(distdl_test(&requests[2], &done));
    EXPECT_THAT(requests, Each(nullptr));
    DISTDL_SUCCEEDS(distdl_wait(&requests[0], 0)) << "what is done stays done";
    EXPECT_EQ("from " + std::to_string(other), received);
  });
}

TEST_F(Communicators, ReceiveFromAnyRank) {
  constexpr std::size_t kLong = 1 << 20;  // by UCX; the short ones by mailboxes
  on_ranks(3, [](distdl_comm* comm) {
    const int rank = rank_of(comm);
    for (const std::size_t bytes : {std::size_t{1}, kLong}) {
      std::vector<char> data(bytes, static_cast<char>('a' + rank));
      if (rank != 1) {
        DISTDL_SUCCEEDS(distdl_send(comm, data.data(), bytes, 1, 5, nullptr));
      } else {
        int from[2] = {-1, -1};
        distdl_request* request = nullptr;
        DISTDL_SUCCEEDS(distdl_receive_any(comm, data.data(), bytes, 5, &from[0], &request));
        for (int done = 0; done == 0;) DISTDL_SUCCEEDS(distdl_test(&request, &done));
        EXPECT_THAT(data, Each('a' + from[0]));
        DISTDL_SUCCEEDS(distdl_receive_any(comm, data.data(), bytes, 5, &from[1], nullptr));
        EXPECT_THAT(data, Each('a' + from[1]));
        EXPECT_THAT(from, testing::UnorderedElementsAre(0, 2));
      }
      DISTDL_SUCCEEDS(distdl_barrier(comm, nullptr));
    }
  });
}

TEST_F(Communicators, ReceiveFromANamedRankWhileAnyIsAwaited) {
  on_ranks(2, [](distdl_comm* comm) {
    char first = 'x', second = 'y';
    if (rank_of(comm) == 0) {
      distdl_request* named = nullptr;
      distdl_request* any = nullptr;
      DISTDL_SUCCEEDS(distdl_receive(comm, &first, 1, 1, 0, &named));
      DISTDL_SUCCEEDS(distdl_receive_any(comm, &second, 1, 0, nullptr, &any));
      DISTDL_SUCCEEDS(distdl_wait(&any, 20));
      DISTDL_SUCCEEDS(distdl_wait(&named, 20));
      EXPECT_EQ('x', first);
      EXPECT_EQ('y', second);
      DISTDL_SUCCEEDS(distdl_receive_any(comm, &second, 1, 1, nullptr, &any));
      DISTDL_SUCCEEDS(distdl_cancel(&any));
    } else {
      DISTDL_SUCCEEDS(distdl_send(comm, &first, 1, 0, 0, nullptr));
      DISTDL_SUCCEEDS(distdl_send(comm, &second, 1, 0, 0, nullptr));
    }
  });
}

/// Three arrays of the value `mine` are reduced to the value `sum`.
template <class T>
void expect_sum(distdl_comm* comm, int type, T mine, T sum, int reduction = DISTDL_SUM) {
  std::vector<T> values(3, mine), result(3), slice(1);
  DISTDL_SUCCEEDS(distdl_all_reduce(comm, values.data(), result.data(), 3, type, reduction, nullptr));
  EXPECT_THAT(result, Each(sum)) << type;
  DISTDL_SUCCEEDS(distdl_reduce_scatter(comm, values.data(), slice.data(), 1, nullptr, type, reduction, nullptr));
  EXPECT_THAT(slice, Each(sum)) << type;
  distdl_request* request = nullptr;
  T* const root = rank_of(comm) == 1 ? values.data() : nullptr;
  DISTDL_SUCCEEDS(distdl_reduce(comm, values.data(), root, 3, type, reduction, 1, &request));
  DISTDL_SUCCEEDS(distdl_wait(&request, 20));
  EXPECT_THAT(values, Each(rank_of(comm) == 1 ? sum : mine)) << type;
}

TEST_F(Communicators, ReduceSmallIntegersTruthValuesAndComplexNumbers) {
  on_ranks(3, [](distdl_comm* comm) {
    const int rank = rank_of(comm);
    expect_sum<std::uint8_t>(comm, DISTDL_U8, static_cast<std::uint8_t>(100 + rank), 303 - 256);
    expect_sum<std::int8_t>(comm, DISTDL_I8, static_cast<std::int8_t>(rank - 3), -6);
    expect_sum<std::int8_t>(comm, DISTDL_I8, static_cast<std::int8_t>(rank - 3), -1, DISTDL_MAX);
    expect_sum<std::int16_t>(comm, DISTDL_I16, static_cast<std::int16_t>(-10000 - rank), -30003);
    expect_sum<std::uint8_t>(comm, DISTDL_BOOL, rank == 1 ? 7 : 0, 1);
    expect_sum<std::uint8_t>(comm, DISTDL_BOOL, rank == 1 ? 7 : 0, 0, DISTDL_MIN);
    using Complex = std::complex<float>;
    expect_sum<Complex>(comm, DISTDL_C64, Complex(rank, 1), Complex(3, 3));
    expect_sum<std::complex<double>>(comm, DISTDL_C128, {1.5 * rank, -1}, {1.5, -1}, DISTDL_AVERAGE);
    Complex value;
    expect_error(distdl_all_reduce(comm, nullptr, &value, 1, DISTDL_C64, DISTDL_MAX, nullptr), DISTDL_INVALID,
                 {"complex numbers have no maximum"});
    expect_error(distdl_all_reduce(comm, nullptr, &value, 1, DISTDL_I8, DISTDL_AVERAGE, nullptr), DISTDL_INVALID,
                 {"average"});
    std::vector<std::int16_t> all(3);
    const std::vector<std::size_t> counts{0, 1, 2};
    const std::vector<std::int16_t> own(counts[rank], static_cast<std::int16_t>(-rank));
    DISTDL_SUCCEEDS(distdl_all_gather(comm, own.data(), all.data(), 0, counts.data(), DISTDL_I16, nullptr));
    EXPECT_THAT(all, ElementsAre(-1, -2, -2));
  });
}

TEST_F(Communicators, TakeArraysWithoutElements) {
  on_ranks(2, [](distdl_comm* comm) {
    for (const int type : {DISTDL_U8, DISTDL_F32, DISTDL_BF16, DISTDL_I64, DISTDL_I16, DISTDL_BOOL, DISTDL_C128}) {
      DISTDL_SUCCEEDS(distdl_all_reduce(comm, nullptr, nullptr, 0, type, DISTDL_SUM, nullptr));
      DISTDL_SUCCEEDS(distdl_reduce(comm, nullptr, nullptr, 0, type, DISTDL_SUM, 0, nullptr));
      DISTDL_SUCCEEDS(distdl_reduce_scatter(comm, nullptr, nullptr, 0, nullptr, type, DISTDL_SUM, nullptr));
      DISTDL_SUCCEEDS(distdl_broadcast(comm, nullptr, 0, type, 1, nullptr));
      DISTDL_SUCCEEDS(distdl_all_gather(comm, nullptr, nullptr, 0, nullptr, type, nullptr));
      DISTDL_SUCCEEDS(distdl_gather(comm, nullptr, nullptr, 0, nullptr, type, 1, nullptr));
      DISTDL_SUCCEEDS(distdl_scatter(comm, nullptr, nullptr, 0, nullptr, type, 1, nullptr));
      DISTDL_SUCCEEDS(distdl_all_to_all(comm, nullptr, nullptr, 0, nullptr, nullptr, type, nullptr));
    }
    const int other = 1 - rank_of(comm);
    distdl_request* request = nullptr;
    DISTDL_SUCCEEDS(distdl_send(comm, nullptr, 0, other, 0, &request));
    DISTDL_SUCCEEDS(distdl_receive(comm, nullptr, 0, other, 0, nullptr));
    DISTDL_SUCCEEDS(distdl_wait(&request, -1));
  });
}

/// The caller's all-gather: threads of one process.
struct Board {
  explicit Board(int size) : ranks(size), arrival(size) {}
  std::vector<std::string> ranks;
  std::barrier<> arrival;
};
struct Place {
  Board* board;
  std::size_t rank;
};

int exchange(void* context, const void* mine, std::size_t bytes, void* all) {
  const auto& [board, rank] = *static_cast<Place*>(context);
  board->ranks[rank].assign(static_cast<const char*>(mine), bytes);
  board->arrival.arrive_and_wait();
  std::size_t at = 0;
  for (const auto& one : board->ranks) {
    if (one.size() != bytes) return 7;
    std::memcpy(static_cast<char*>(all) + at, one.data(), bytes);
    at += bytes;
  }
  board->arrival.arrive_and_wait();
  return 0;
}

TEST_F(Communicators, MeetByTheCallersExchange) {
  Board board(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&board, rank] {
      Place place{&board, static_cast<std::size_t>(rank)};
      distdl_comm* comm = nullptr;
      DISTDL_SUCCEEDS(distdl_comm_create_exchange(&exchange, &place, rank, 3, options().c_str(), &comm));
      EXPECT_EQ(rank, rank_of(comm));
      int number = rank;
      DISTDL_SUCCEEDS(distdl_all_reduce(comm, nullptr, &number, 1, DISTDL_I32, DISTDL_SUM, nullptr));
      EXPECT_EQ(3, number);
      DISTDL_SUCCEEDS(distdl_comm_close(comm));
    });
  for (auto& thread : threads) thread.join();
}

TEST_F(Communicators, TellThatTheCallersExchangeHasFailed) {
  distdl_comm* comm = nullptr;
  const auto fails = [](void*, const void*, std::size_t, void*) { return 7; };
  expect_error(distdl_comm_create_exchange(fails, nullptr, 0, 2, "", &comm), DISTDL_SCHEDULER,
               {"exchange", "returned 7"});
  EXPECT_EQ(nullptr, comm);
  const auto does_nothing = [](void*, const void*, std::size_t, void*) { return 0; };
  expect_error(distdl_comm_create_exchange(does_nothing, nullptr, 0, 2, "", &comm), DISTDL_SCHEDULER,
               {"has not put the bytes of rank 0 at their place"});
  expect_error(distdl_comm_create_exchange(nullptr, nullptr, 0, 2, "", &comm), DISTDL_INVALID, {"exchange is null"});
  expect_error(distdl_comm_create_exchange(fails, nullptr, 2, 2, "", &comm), DISTDL_INVALID, {"rank is 2"});
}

TEST_F(Communicators, TellThatAWaitIsOverBeforeTheOperation) {
  on_ranks(2, [](distdl_comm* comm) {
    const int rank = rank_of(comm);
    char byte = 'a';
    if (rank == 0) {
      distdl_request* request = nullptr;
      DISTDL_SUCCEEDS(distdl_receive(comm, &byte, 1, 1, 0, &request));
      expect_error(distdl_wait(&request, 0.05), DISTDL_TIMEOUT, {"distdl_wait", "0.05"});
      EXPECT_NE(nullptr, request);
      DISTDL_SUCCEEDS(distdl_barrier(comm, nullptr));
      DISTDL_SUCCEEDS(distdl_wait(&request, 20));
      EXPECT_EQ('b', byte);
    } else {
      byte = 'b';
      DISTDL_SUCCEEDS(distdl_barrier(comm, nullptr));
      DISTDL_SUCCEEDS(distdl_send(comm, &byte, 1, 0, 0, nullptr));
    }
  });
}

TEST_F(Communicators, AreSplit) {
  on_ranks(3, [](distdl_comm* comm) {
    const int rank = rank_of(comm);
    distdl_comm* part = nullptr;
    DISTDL_SUCCEEDS(distdl_comm_split(comm, rank == 2 ? -1 : 0, -rank, &part));
    EXPECT_EQ(rank == 2, part == nullptr);
    if (!part) return;
    EXPECT_EQ(1 - rank, rank_of(part));
    expect_error(distdl_comm_close(comm), DISTDL_STATE, {"distdl_comm_close", "close them first"});
    DISTDL_SUCCEEDS(distdl_comm_close(part));
  });
}

TEST_F(Communicators, ShareMemory) {
  on_ranks(2, [](distdl_comm* comm) {
    void* memory = nullptr;
    DISTDL_SUCCEEDS(distdl_comm_allocate(comm, 4096, &memory));
    auto* const values = static_cast<double*>(memory);
    values[511] = rank_of(comm);
    DISTDL_SUCCEEDS(distdl_all_reduce(comm, nullptr, values, 512, DISTDL_F64, DISTDL_SUM, nullptr));
    EXPECT_EQ(1, values[511]);
    DISTDL_SUCCEEDS(distdl_comm_free(comm, memory));
    expect_error(distdl_comm_free(comm, memory), DISTDL_INVALID, {"memory"});
  });
}

TEST_F(Communicators, TellTheReasonOfALostRank) {
  on_ranks(2, [](distdl_comm* comm) {
    if (rank_of(comm) == 1) {
      DISTDL_SUCCEEDS(distdl_comm_abort(comm, 74, "the disk is full"));
      expect_error(distdl_barrier(comm, nullptr), DISTDL_PEER_LOST, {"this rank has told the others"});
      return;
    }
    int number = 0;
    distdl_request* request = nullptr;
    DISTDL_SUCCEEDS(distdl_all_reduce(comm, nullptr, &number, 1, DISTDL_I32, DISTDL_SUM, &request));
    expect_error(distdl_wait(&request, -1), DISTDL_PEER_LOST, {"the disk is full"});
    EXPECT_EQ(74, distdl_error_exit_code());
    EXPECT_EQ(nullptr, request);
    expect_error(distdl_barrier(comm, nullptr), DISTDL_PEER_LOST, {"can only be closed", "the disk is full"});
  });
}

TEST_F(Communicators, MayBeUsedByThreadsInTurn) {
  on_ranks(2, [](distdl_comm* comm) {
    const int rank = rank_of(comm);
    std::vector<std::thread> threads;
    std::atomic<int> sum = 0;
    for (int tag = 0; tag < 4; ++tag)
      threads.emplace_back([&, tag] {
        for (int i = 0; i < 20; ++i) {
          int number = 100 * tag + i, got = -1;
          distdl_request* request = nullptr;
          const int begun = rank == 0 ? distdl_send(comm, &number, sizeof number, 1, tag, &request)
                                      : distdl_receive(comm, &got, sizeof got, 0, tag, &request);
          DISTDL_SUCCEEDS(begun);
          DISTDL_SUCCEEDS(distdl_wait(&request, 20));
          if (rank == 1) sum += got == number;
        }
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(rank == 1 ? 80 : 0, sum);
  });
}

}  // namespace
}  // namespace distdl::capi
