// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <filesystem>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>

#include "tests/comm/connected_threads.hpp"
#include <distdl/base/env.hpp>

namespace distdl::comm {
namespace {
using ::testing::HasSubstr;

std::vector<std::byte> pattern(std::size_t size, int seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed * 17 + (i >> 8)) & 0xFF);
  return bytes;
}

class Collectives : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, ::testing::Values(1, 2, 3, 4, 6, 8));

TEST_P(Collectives, BarrierLetsNobodyThroughBeforeAllHaveCome) {
  std::atomic<int> come = 0;
  on_threads(GetParam(), [&](Communicator& comm) {
    for (int round = 1; round <= 20; ++round) {
      ++come;
      comm.barrier().wait();
      EXPECT_GE(come.load(), round * comm.size());
      comm.barrier().wait();
    }
  });
}

TEST_P(Collectives, BroadcastReachesAllFromAnyRoot) {
  on_threads(GetParam(), [](Communicator& comm) {
    for (std::size_t size : {0, 1, 7, 4099, 300007})
      for (int root = 0; root < comm.size(); ++root) {
        auto bytes = comm.rank() == Rank(root) ? pattern(size, root) : std::vector<std::byte>(size);
        comm.broadcast(bytes, Rank(root)).wait();
        EXPECT_EQ(bytes, pattern(size, root));
      }
  });
}

TEST(Communicator, RootBroadcastsManyShortOnesBeforeOthersBegin) {
  on_threads(2, [](Communicator& comm) {
    constexpr int kAhead = 60;
    const Rank root(0), other(1);
    std::vector<std::byte> word(64);
    if (comm.rank() == other) comm.receive(word, root, 1).wait();
    for (int i = 0; i < kAhead; ++i) {
      if (comm.rank() == root) word = pattern(word.size(), i);
      comm.broadcast(word, root).wait();
      EXPECT_EQ(word, pattern(word.size(), i));
    }
    if (comm.rank() == root) comm.send(word, other, 1).wait();
  });
}

TEST(Communicator, ShortAndLongOperationsReuseTheirMemoryInTurn) {
  on_threads(3, [](Communicator& comm) {
    for (int i = 0; i < 1000; ++i) {
      const std::size_t size = i % 7 == 3 ? 3000 : 8 * (1 + i % 13);
      const Rank root(i / 90 % comm.size());
      auto bytes = comm.rank() == root ? pattern(size, i) : std::vector<std::byte>(size);
      comm.broadcast(bytes, root).wait();
      ASSERT_EQ(bytes, pattern(size, i)) << i;
    }
  });
}

TEST_P(Collectives, ExchangeKeepsOrderAndLengths) {
  on_threads(GetParam(), [](Communicator& comm) {
    const auto text_of = [](int rank) { return std::string(rank * 5003, static_cast<char>('a' + rank)); };
    const auto all = comm.all_gather_strings(text_of(comm.rank().value));
    ASSERT_EQ(static_cast<int>(all.size()), comm.size());
    for (int r = 0; r < comm.size(); ++r) EXPECT_EQ(all[r], text_of(r));
  });
}

TEST_P(Collectives, SendAndReceiveMatchByTag) {
  on_threads(GetParam(), [](Communicator& comm) {
    const int next = (comm.rank().value + 1) % comm.size(),
              before = (comm.rank().value + comm.size() - 1) % comm.size();
    if (comm.size() == 1) return;
    for (std::size_t size : {std::size_t{0}, std::size_t{13}, std::size_t{5000}}) {
      comm.send(pattern(size, 1), Rank(next), 1).wait();
      comm.send(pattern(size, 2), Rank(next), 0xFFFF).wait();
      std::vector<std::byte> one(size), two(size);
      comm.receive(two, Rank(before), 0xFFFF).wait();
      comm.receive(one, Rank(before), 1).wait();
      EXPECT_EQ(one, pattern(size, 1));
      EXPECT_EQ(two, pattern(size, 2));
    }
  });
}

TEST(Communicator, LargeMessageGoesThroughWithoutTheReceiverBeingFirst) {
  on_threads(2, [](Communicator& comm) {
    auto bytes = pattern(9'000'001, 3);
    if (comm.rank() == Rank(0)) return comm.send(bytes, Rank(1), 5).wait();
    std::this_thread::sleep_for(Milliseconds(50));
    std::vector<std::byte> received(bytes.size());
    comm.receive(received, Rank(0), 5).wait();
    EXPECT_EQ(received, bytes);
  });
}

TEST(Communicator, KnowsWhoSharesItsHost) {
  on_threads(3, [](Communicator& comm) {
    EXPECT_EQ(comm.ranks_on_host_of(Rank(1)), (std::vector{Rank(0), Rank(1), Rank(2)}));
    EXPECT_EQ(comm.host(Rank(0)), comm.host(Rank(2)));
    EXPECT_THAT(comm.description(), HasSubstr("3 ranks, generation 0"));
  });
}

TEST(Communicator, SharesMemoryWithinANode) {
  on_threads(2, [](Communicator& comm) { EXPECT_THAT(comm.description(), HasSubstr("2 share this node's memory")); });
}

// A regression here costs a factor of 3 to 10 and shows nowhere else.
TEST(Communicator, SendsThroughSharedMemoryWithinANode) {
  if (env("UCX_TLS")) GTEST_SKIP() << "UCX_TLS=" << *env("UCX_TLS") << " chooses the transports";
  on_threads(2, [](Communicator& comm) {
    std::vector<std::byte> bytes(100'000);  // too long for the mailbox
    (comm.rank() == Rank(0) ? comm.send(bytes, Rank(1), 0) : comm.receive(bytes, Rank(0), 0)).wait();
    EXPECT_THAT(comm.description(), ::testing::AnyOf(HasSubstr("posix/memory"), HasSubstr("sysv/memory")));
  });
}

TEST(Communicator, RefusesAnInterfaceThatDoesNotExist) {
  Options options = test_options();
  options.interface = "nosuch0";
  try {
    on_threads(
        1, [](Communicator&) {}, options);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no network interface \"nosuch0\", only"));
    EXPECT_THAT(error.what(), HasSubstr("lo"));
  }
}

TEST(Communicator, ExchangeWaitsAsLongAsItIsTold) {
  Options options = test_options();
  options.timeout_seconds = 0.2;
  const auto gather_late = [](std::optional<Clock::duration> timeout) {
    return [timeout](Communicator& comm) {
      if (comm.rank() == Rank(1)) std::this_thread::sleep_for(Milliseconds(1200));
      EXPECT_EQ(comm.all_gather_strings("x", timeout).size(), 2u);
    };
  };
  on_threads(2, gather_late(Milliseconds(20000)), options);
  EXPECT_THROW(on_threads(2, gather_late(std::nullopt), options), PeerLost);
}

TEST(Communicator, RefusesTimeoutsThatMakeNoSense) {
  for (double seconds : {0.0, -1.0, 1e300}) {
    Options options = test_options();
    options.timeout_seconds = seconds;
    EXPECT_THROW(on_threads(
                     1, [](Communicator&) {}, options),
                 ConfigError)
        << seconds;
  }
}

void expect_mismatch(const Options& options, const std::vector<const char*>& texts) {
  const auto mismatch = [](Communicator& comm) {
    std::vector<std::byte> bytes(comm.rank() == Rank(0) ? 8 : 16);
    comm.broadcast(bytes, Rank(0)).wait();
  };
  try {
    on_threads(2, mismatch, options);
    FAIL() << "no error";
  } catch (const CommError& error) {
    for (const char* text : texts) EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(Communicator, NamesBothSizesWhenTheyDiffer) {
  Options options = test_options();
  options.shared_memory_ranks = 1;
  expect_mismatch(options, {"broadcast", "rank 0", "sent 8 bytes, expected 16"});
}

TEST(Communicator, NoticesThatRanksOfANodeCallDifferentOperations) {
  expect_mismatch(test_options(), {"broadcast", "calls another operation, or uses other sizes, types or options"});
}

int open_descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(Communicator, LeaksNoDescriptors) {
  const auto once = [] { on_threads(3, [](Communicator& comm) { comm.barrier().wait(); }); };
  once();  // what UCX opens once for the process
  const int before = open_descriptors();
  for (int i = 0; i < 10; ++i) once();
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace distdl::comm
