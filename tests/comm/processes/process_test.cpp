// SPDX-License-Identifier: Apache-2.0
// Ranks as processes: what happens when one of them dies, freezes, never comes or gives up.
#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>
#include <tuple>

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "tests/comm/processes/rank_processes.hpp"
#include "tests/pace.hpp"
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::comm {
namespace {
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kPeerLost = static_cast<int>(ExitCode::peer_lost);
/// Until ranks run, or have ended.
const Milliseconds kStart = paced(Milliseconds(20'000));

/// An argument of rank_program.
std::string seconds(double time) {
  return fmt::format("{:.1f}", time);
}

/// Transports: "auto" (shared memory on one machine) or "tcp".
class Processes : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "auto" && env("UCX_TLS"))
      GTEST_SKIP() << "UCX_TLS=" << *env("UCX_TLS") << " chooses the transports";
  }
  RankProcesses start(const std::vector<std::string>& arguments, int size, const std::vector<int>& ranks) const {
    RankProcesses::Environment extra{{"RANK_PROGRAM_INTERFACE", "lo"}};
    if (std::string(GetParam()) == "tcp") extra.insert({{"UCX_TLS", "tcp,self"}, {"RANK_PROGRAM_NETWORK", "1"}});
    return RankProcesses(RANK_PROGRAM, arguments, size, ranks, extra);
  }
};
INSTANTIATE_TEST_SUITE_P(Transport, Processes, ::testing::Values("auto", "tcp"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(Processes, SumAndLeaveNothingBehind) {
  auto ranks = start({"sum", seconds(paced(20))}, 4, {0, 1, 2, 3});
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(ranks.wait(r, kStart), 0) << ranks.errors(r);
    EXPECT_THAT(ranks.output(r), HasSubstr("sum 10\n"));
    EXPECT_EQ(ranks.errors(r), "");
  }
  EXPECT_TRUE(std::filesystem::is_empty(ranks.folder() / "meet")) << "the rendezvous was not cleaned up";
}

TEST_P(Processes, PutGetAndSendMessages) {
  for (const char* floats : {"1", "1000", "300000"}) {
    auto ranks = start({"one_sided", seconds(paced(20)), floats}, 4, {0, 1, 2, 3});
    for (int r = 0; r < 4; ++r) {
      EXPECT_EQ(ranks.wait(r, kStart), 0) << ranks.errors(r);
      EXPECT_THAT(ranks.output(r), HasSubstr("one-sided done\n"));
      EXPECT_EQ(ranks.errors(r), "");
    }
  }
}

TEST(UcxLog, IsPrintedIfAskedFor) {
  RankProcesses ranks(RANK_PROGRAM, {"sum", "20"}, 1, {0}, {{"UCX_LOG_LEVEL", "info"}});
  EXPECT_EQ(ranks.wait(0, kStart), 0) << ranks.errors(0);
  EXPECT_THAT(ranks.output(0) + ranks.errors(0), HasSubstr("UCX  INFO"));
}

/// The victim fails when all ranks have its address, before any of them has sent it a hello.
class LossBeforeHandshake : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Fates, LossBeforeHandshake,
                         ::testing::Combine(::testing::Values("auto", "tcp"), ::testing::Values("kill", "freeze")),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param), std::get<1>(test.param));
                         });

TEST_P(LossBeforeHandshake, NamesTheRankThatIsGone) {
  const auto [transport, fate] = GetParam();
  const std::string gate = fmt::format("{}/distdl-gate-{}", ::testing::TempDir(), ::getpid());
  RankProcesses::Environment extra{{"RANK_PROGRAM_INTERFACE", "lo"}, {"RANK_PROGRAM_GATE", gate}};
  if (std::string(transport) == "tcp") extra.insert({{"UCX_TLS", "tcp,self"}, {"RANK_PROGRAM_NETWORK", "1"}});
  const std::string timeout = seconds(paced(2));
  RankProcesses ranks(RANK_PROGRAM, {"gate", timeout}, 4, {0, 1, 3}, extra);
  extra.insert({"RANK_PROGRAM_FATE", fate});
  ranks.start(RANK_PROGRAM, {"gate", timeout}, 4, 2, extra);
  ASSERT_TRUE(ranks.wait_for_line({0, 1, 2, 3}, "exchanged", kStart)) << ranks.errors(0);
  std::ofstream(gate) << "open";
  const Stopwatch stopwatch;
  for (int r : {0, 1, 3}) {
    EXPECT_EQ(ranks.wait(r, kStart), kPeerLost);
    EXPECT_THAT(ranks.errors(r), HasSubstr("rank 2 ("));
  }
  EXPECT_LT(stopwatch.seconds(), paced(2 + 1) + 0.7);  // which a farewell to a frozen rank takes
  std::filesystem::remove(gate);
}

TEST_P(Processes, KilledRankIsNamedAtOnce) {
  auto ranks = start({"endless", seconds(paced(20)), "3000000"}, 3, {0, 1, 2});
  ASSERT_TRUE(ranks.wait_for_line({0, 1, 2}, "running", kStart)) << ranks.errors(0);
  ranks.signal(2, SIGKILL);
  const Stopwatch stopwatch;
  for (int r : {0, 1}) {
    EXPECT_EQ(ranks.wait(r, kStart), kPeerLost);
    EXPECT_THAT(ranks.errors(r), AllOf(HasSubstr("all-reduce "), HasSubstr("rank 2 (")));
    EXPECT_THAT(ranks.output(r) + ranks.errors(r), AllOf(Not(HasSubstr("UCX  WARN")), Not(HasSubstr("UCX  ERROR"))));
  }
  EXPECT_LT(stopwatch.seconds(), paced(3)) << "the deadline, not the death, ended the wait";
}

/// Short messages, and those that the receiver fetches, some of which come from the rank that dies.
TEST_P(Processes, OthersGoOnWithoutAKilledRankThatTheyTolerate) {
  for (const char* floats : {"100", "600000"}) {
    auto ranks = start({"tolerate", seconds(paced(20)), floats}, 4, {0, 1, 2, 3});
    std::string errors;
    for (int r : {0, 1, 3}) {
      EXPECT_EQ(ranks.wait(r, kStart), kPeerLost);
      EXPECT_THAT(ranks.output(r), HasSubstr("without 2\nwent on\n")) << ranks.errors(r);
      errors += ranks.errors(r);
    }
    EXPECT_THAT(errors, HasSubstr("rank 2 (")) << "of the one that ends first";
  }
}

TEST_P(Processes, ARankThatTellsItsReasonIsNotTolerated) {
  auto ranks = start({"tolerate_abort", seconds(paced(20)), "100"}, 4, {0, 1, 2, 3});
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(ranks.wait(r, kStart), static_cast<int>(ExitCode::config)) << ranks.errors(r);
    EXPECT_THAT(ranks.errors(r), HasSubstr("cannot open \"x.h5\""));
    EXPECT_THAT(ranks.output(r), Not(HasSubstr("without")));
  }
}

TEST_P(Processes, FrozenRankIsNamedAtTheDeadline) {
  auto ranks = start({"endless", seconds(paced(1.5))}, 4, {0, 1, 2, 3});
  ASSERT_TRUE(ranks.wait_for_line({0, 1, 2, 3}, "running", kStart)) << ranks.errors(0);
  ranks.signal(3, SIGSTOP);
  const Stopwatch stopwatch;
  for (int r : {0, 1, 2}) {
    EXPECT_EQ(ranks.wait(r, kStart), kPeerLost);
    EXPECT_THAT(ranks.errors(r), AllOf(HasSubstr("all-reduce "), HasSubstr("waited "), HasSubstr("rank 3 (")));
    EXPECT_THAT(ranks.errors(r), HasSubstr("does not answer"));
  }
  EXPECT_GT(stopwatch.seconds(), paced(1));
  EXPECT_LT(stopwatch.seconds(), paced(6));
}

/// As Slurm suspends a job, not all at the same moment.
TEST_P(Processes, RanksThatAllWereStoppedForLongGoOn) {
  const std::vector<int> all{0, 1, 2};
  auto ranks = start({"endless", "1.5"}, 3, all);
  ASSERT_TRUE(ranks.wait_for_line(all, "running", kStart)) << ranks.errors(0);
  for (const int number : {SIGSTOP, SIGCONT}) {
    for (int r : all) {
      ranks.signal(r, number);
      std::this_thread::sleep_for(Milliseconds(50));
    }
    if (number == SIGSTOP) std::this_thread::sleep_for(Milliseconds(3000));
  }
  for (int r : all) EXPECT_EQ(ranks.wait(r, Milliseconds(1000)), -1) << ranks.errors(r);
  ranks.signal(2, SIGKILL);
  for (int r : {0, 1}) {
    EXPECT_EQ(ranks.wait(r, kStart), kPeerLost);
    EXPECT_THAT(ranks.errors(r), HasSubstr("rank 2 ("));
  }
}

TEST_P(Processes, AbsentRankIsNamed) {
  auto ranks = start({"sum", seconds(paced(1))}, 3, {0, 2});
  for (int r : {0, 2}) {
    EXPECT_EQ(ranks.wait(r, kStart), static_cast<int>(ExitCode::scheduler));
    EXPECT_THAT(ranks.errors(r), HasSubstr("rank 1 did not arrive within " + seconds(paced(1)) + " s"));
  }
}

TEST_P(Processes, ReasonAndCodeOfTheRankThatGivesUpReachAll) {
  auto ranks = start({"abort", seconds(paced(20))}, 4, {0, 1, 2, 3});
  EXPECT_EQ(ranks.wait(1, kStart), static_cast<int>(ExitCode::config));
  const Stopwatch stopwatch;
  for (int r : {0, 2, 3}) {
    EXPECT_EQ(ranks.wait(r, kStart), static_cast<int>(ExitCode::config));
    EXPECT_THAT(ranks.errors(r),
                AllOf(HasSubstr("rank 1 ("), HasSubstr("stopped: cannot open \"x.h5\": no such file")));
  }
  EXPECT_LT(stopwatch.seconds(), paced(1));
}

/// The floats must be many enough to go through both ways that lead from rank to rank.
class Crowd : public ::testing::TestWithParam<std::tuple<const char*, int>> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Crowd, ::testing::Combine(::testing::Values("auto", "tcp"), ::testing::Values(8, 16)),
                         [](const auto& test) {
                           return fmt::format("{}{}", std::get<0>(test.param), std::get<1>(test.param));
                         });

RankProcesses start_crowd(const std::tuple<const char*, int>& parameters, const std::string& scenario) {
  const auto [transport, size] = parameters;
  std::vector<int> ranks;
  for (int r = 0; r < size; ++r) ranks.push_back(r);
  RankProcesses::Environment extra{{"RANK_PROGRAM_INTERFACE", "lo"}};
  if (std::string(transport) == "tcp") extra.insert({{"UCX_TLS", "tcp,self"}, {"RANK_PROGRAM_NETWORK", "1"}});
  return RankProcesses(RANK_PROGRAM, {scenario, seconds(paced(60)), "100"}, size, ranks, extra);
}

// The bound is that of a livelock: undisturbed it takes a second.
TEST_P(Crowd, OfMoreRanksThanProcessorsGetsOn) {
  auto ranks = start_crowd(GetParam(), "crowd");
  for (int r = 0; r < std::get<1>(GetParam()); ++r)
    EXPECT_EQ(ranks.wait(r, paced(Milliseconds(100'000))), 0) << ranks.errors(r);
  std::cout << ranks.output(0);
}

TEST_P(Crowd, SleepsWhileARankIsLate) {
  auto ranks = start_crowd(GetParam(), "late");
  for (int r = 0; r < std::get<1>(GetParam()); ++r) {
    ASSERT_EQ(ranks.wait(r, paced(Milliseconds(60'000))), 0) << ranks.errors(r);
    const std::string output = ranks.output(r);
    double waited = 0, used = 0;
    const auto line = output.find("waited ");
    ASSERT_NE(line, std::string::npos) << output;
    ASSERT_EQ(std::sscanf(output.c_str() + line, "waited %lf s, %lf s", &waited, &used), 2);
    if (r == 0) continue;
    EXPECT_GT(waited, 1);
    EXPECT_LT(used, 0.2 * waited) << "rank " << r;
    if (r == 1) std::cout << output.substr(line);
  }
}

std::string shell(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((command + " 2>&1").c_str(), "r"), &::pclose);
  std::string output;
  std::array<char, 4096> buffer;
  while (std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) output.append(buffer.data(), n);
  return output;
}

class Slurm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!env("SLURM_CONF")) GTEST_SKIP() << "SLURM_CONF names no cluster to test on";
    if (shell("timeout 5 scontrol ping").find(" UP") == std::string::npos)
      GTEST_SKIP() << "no Slurm controller answers";
  }
};

TEST_F(Slurm, RanksMeetThroughPmix) {
  const std::string output = shell("timeout 60 srun --mpi=pmix -n3 " RANK_PROGRAM " sum 20");
  for (int r = 0; r < 3; ++r) EXPECT_THAT(output, HasSubstr("connected rank " + std::to_string(r) + " of 3"));
  EXPECT_THAT(output, HasSubstr("sum 6\n"));
}

TEST_F(Slurm, RefusesToStartCopiesOfRank0WithoutPmix) {
  const std::string output = shell("timeout 60 srun --mpi=none -n3 " RANK_PROGRAM " sum 20");
  EXPECT_THAT(output, HasSubstr("srun --mpi=pmix"));
  EXPECT_THAT(output, ::testing::Not(HasSubstr("connected")));
}

}  // namespace
}  // namespace distdl::comm
