// SPDX-License-Identifier: Apache-2.0
// Ranks that do not call the same operations learn of it; none hangs, and none goes on with wrong numbers unnoticed.
#include <atomic>

#include <gmock/gmock.h>

#include "tests/comm/connected_threads.hpp"
#include "tests/pace.hpp"

namespace distdl::comm {
namespace {
using ::testing::HasSubstr;

/// So many of four ranks share memory (0: all).
class Mismatch : public ::testing::TestWithParam<int> {
 protected:
  /// Every rank must fail, within the deadline, a second, and what two operations may take.
  static void expect_failure(const std::function<void(Communicator&)>& body) {
    Options options = test_options();
    options.timeout_seconds = paced(1);
    options.shared_memory_ranks = GetParam();
    std::atomic<int> failed = 0;
    const auto attempt = [&](Communicator& comm) {
      const Stopwatch stopwatch;
      EXPECT_THROW(
          {
            try {
              comm.barrier().wait();  // else a rank may still be connecting when the others have failed
              body(comm);
            } catch (const CommError& error) {
              ++failed;
              EXPECT_LT(stopwatch.seconds(), paced(2.5)) << error.what();
              throw;
            }
          },
          CommError);
      throw CommError("over");
    };
    EXPECT_THROW(on_threads(4, attempt, options), CommError);
    EXPECT_EQ(failed, 4);
  }
};
INSTANTIATE_TEST_SUITE_P(Placement, Mismatch, ::testing::Values(0, 1, 2));

bool odd_one(const Communicator& comm) {
  return comm.rank() == Rank(2);
}

TEST_P(Mismatch, OtherSizes) {
  for (std::size_t length : {std::size_t{10}, std::size_t{50'000}})
    expect_failure([&](Communicator& comm) {
      std::vector<float> values(odd_one(comm) ? length : length + 7);
      comm.all_reduce(values).wait();
      comm.barrier().wait();
    });
}

TEST_P(Mismatch, OtherOperations) {
  expect_failure([&](Communicator& comm) {
    std::vector<float> values(3000);
    if (odd_one(comm))
      comm.broadcast(values, Rank(1)).wait();
    else
      comm.all_reduce(values).wait();
    comm.barrier().wait();
  });
}

TEST_P(Mismatch, OneOperationLess) {
  expect_failure([&](Communicator& comm) {
    std::vector<float> values(3000);
    if (!odd_one(comm)) comm.all_reduce(values).wait();
    comm.barrier().wait();
    comm.barrier().wait();
  });
}

TEST_P(Mismatch, ReceivesInACircle) {
  expect_failure([&](Communicator& comm) {
    std::vector<std::byte> bytes(100);
    comm.receive(bytes, Rank((comm.rank().value + 1) % comm.size()), 1).wait();
  });
}

/// Short ones lie in shared memory, long ones go by UCX: one side may take a message for short, the other one for long.
TEST_P(Mismatch, MessagesOfOtherSizes) {
  Options options = test_options();
  options.shared_memory_ranks = GetParam();
  for (const auto& [sent, expected] : {std::pair(8, 16), std::pair(8, 100'000), std::pair(100'000, 8)}) {
    const auto body = [&, sent = sent, expected = expected](Communicator& comm) {
      std::vector<std::byte> bytes(100'000);
      const std::span all(bytes);
      const auto length = static_cast<std::size_t>(comm.rank() == Rank(0) ? sent : expected);
      if (comm.rank() == Rank(0)) comm.send(all.first(length), Rank(1), 5).wait();
      if (comm.rank() == Rank(1)) comm.receive(all.first(length), Rank(0), 5).wait();
      comm.barrier().wait();
    };
    try {
      on_threads(2, body, options);
      FAIL() << "no error";
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), HasSubstr(fmt::format("sent {} bytes, expected {}", sent, expected)));
    }
  }
}

TEST(Mismatch, OtherReductionsWithinANode) {
  const auto body = [](Communicator& comm) {
    std::vector<float> values(100);
    CallOptions options;
    options.reduction = comm.rank() == Rank(1) ? Reduction::maximum : Reduction::sum;
    comm.all_reduce(values, options).wait();
  };
  try {
    on_threads(3, body);
    FAIL() << "no error";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), HasSubstr("calls another operation"));
  }
}

/// The reason of the rank that gives up, through nodes and within.
TEST_P(Mismatch, AndFailuresOfOneRankReachAll) {
  Options options = test_options();
  options.shared_memory_ranks = GetParam();
  std::atomic<int> told = 0;
  const Stopwatch stopwatch;
  const auto body = [&](Communicator& comm) {
    std::vector<float> values(20'000, 1);
    for (int round = 0;; ++round) {
      if (round == 5 && odd_one(comm)) throw Error(ExitCode::storage, "no space left on \"ck\"");
      try {
        comm.all_reduce(values).wait();
      } catch (const PeerLost& lost) {
        EXPECT_EQ(lost.rank(), Rank(2));
        EXPECT_EQ(lost.exit_code(), ExitCode::storage);
        EXPECT_THAT(lost.what(), HasSubstr("no space left on \"ck\""));
        ++told;
        throw;
      }
    }
  };
  EXPECT_THROW(on_threads(4, body, options), Error);
  EXPECT_EQ(told, 3);
  EXPECT_LT(stopwatch.seconds(), paced(5));
}

}  // namespace
}  // namespace distdl::comm
