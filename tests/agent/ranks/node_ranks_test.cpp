// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <distdl/agent/cpu_binding.hpp>
#include <distdl/agent/rank_look.hpp>
#include <distdl/agent/ranks/node_ranks.hpp>

namespace distdl::agent {
namespace {
using namespace std::chrono_literals;
namespace fs = std::filesystem;

Process shell(const std::string& text) {
  return {{"sh", "-c", text}, {}};
}
/// Gives signs of life, as a rank does, until it ends; each says step 7.
const std::string kBeating = R"(while :; do printf '\007\0\0\0\0\0\0\0' >&$DISTDL_BEATS; sleep 0.05; done)";

/// Looks at the ranks until the condition holds; false after twenty seconds.
template <class Condition>
bool reaches(NodeRanks& ranks, Condition condition) {
  for (const auto end = Deadline::after(20s); !end.expired(); std::this_thread::sleep_for(10ms)) {
    ranks.check(Clock::now(), 0ms);
    ranks.reap();
    if (condition()) return true;
  }
  return false;
}

TEST(NodeRanks, EndWithTheCodeOfTheCause) {
  NodeRanks ranks(Rank(4), {shell("exit 69"), shell("kill -SEGV $$"), shell("exit 0")}, {}, Clock::now());
  ASSERT_TRUE(reaches(ranks, [&] { return ranks.reap() == 0; }));
  EXPECT_EQ(ranks.code(), 128 + 11);
  EXPECT_EQ(ranks.cause(), "rank 5 was killed by SIGSEGV");
  EXPECT_EQ(ranks.origin(), (Origin{CauseKind::crashed, std::nullopt, 5}));
  EXPECT_EQ(ranks.step(), Step(-1)) << "none has trained";
}

TEST(NodeRanks, HaveOnlyTheirOwnPipeAndMemory) {
  const auto folder = fs::path(::testing::TempDir()) / ("node_ranks_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const auto files_of = [&](int rank) {
    std::ifstream list(folder / std::to_string(rank));
    int pipes = 0, memories = 0;
    for (std::string line; std::getline(list, line);) {
      pipes += line.find("pipe:") != std::string::npos;
      memories += line.find("distdl-activity") != std::string::npos;
    }
    return std::pair(pipes, memories);
  };
  std::pair<int, int> alone;
  for (const int count : {1, 3}) {
    std::vector<Process> processes;
    for (int rank = 0; rank < count; ++rank)
      processes.push_back(shell("exec ls -l /proc/self/fd > " + (folder / std::to_string(rank)).string()));
    NodeRanks ranks(Rank(0), processes, {}, Clock::now());
    ASSERT_TRUE(reaches(ranks, [&] { return ranks.reap() == 0; }));
    EXPECT_EQ(ranks.code(), 0);
    if (count == 1) alone = files_of(0);
    for (int rank = 0; rank < count; ++rank) EXPECT_EQ(files_of(rank), alone) << rank;
  }
  EXPECT_GE(alone.first, 1);
  EXPECT_EQ(alone.second, 1);
  fs::remove_all(folder);
}

TEST(NodeRanks, ALostPeerIsACauseIfThereIsNoOther) {
  NodeRanks ranks(Rank(0), {shell("exit 69"), shell("exit 0")}, {}, Clock::now());
  ASSERT_TRUE(reaches(ranks, [&] { return ranks.reap() == 0; }));
  EXPECT_EQ(ranks.cause(), "rank 0 ended with code 69 (peer lost)");
}

TEST(NodeRanks, WrongBitsTellMoreThanACrash) {
  NodeRanks ranks(Rank(0), {shell("kill -SEGV $$"), shell("sleep 0.2; exit 72")}, {}, Clock::now());
  ASSERT_TRUE(reaches(ranks, [&] { return ranks.reap() == 0; }));
  EXPECT_EQ(ranks.code(), 72);
  EXPECT_EQ(ranks.cause(), "rank 1 ended with code 72 (corruption)");
  EXPECT_EQ(ranks.origin(), (Origin{CauseKind::corrupted, std::nullopt, 1}));
}

TEST(NodeRanks, AFrozenRankIsEnded) {
  NodeRanks ranks(Rank(0), {shell(kBeating), shell("printf '\\0\\0\\0\\0\\0\\0\\0\\0' >&$DISTDL_BEATS; exec sleep 60")},
                  {.first = 20s, .between = 500ms}, Clock::now());
  ASSERT_TRUE(reaches(ranks, [&] { return ranks.failed(); }));
  EXPECT_EQ(ranks.cause(), "rank 1 was frozen");
  EXPECT_EQ(ranks.origin().kind, CauseKind::frozen);
  EXPECT_EQ(ranks.code(), 128 + 9);
  EXPECT_EQ(ranks.step(), Step(7));
  EXPECT_EQ(ranks.reap(), 1u) << "the other one lives";
  ranks.kill();
  ASSERT_TRUE(reaches(ranks, [&] { return ranks.reap() == 0; }));
  EXPECT_EQ(ranks.cause(), "rank 1 was frozen");
}

/// Waits until /proc tells this state of the first rank.
bool is_in_state(const NodeRanks& ranks, const std::string& state) {
  const pid_t process = ranks.started().at(0).process;
  for (const auto end = Deadline::after(20s); !end.expired(); std::this_thread::sleep_for(1ms))
    if (state_of_process(process, process) == state) return true;
  return false;
}

TEST(NodeRanks, ARankThatASignalHasStoppedIsFrozenEvenBeforeItsFirstSignOfLife) {
  auto now = Clock::now();
  NodeRanks ranks(Rank(3), {shell("exec sleep 60")}, {.first = 1h, .between = 1h, .stall = {.stopped = 3s}}, now);
  ASSERT_EQ(::kill(ranks.started().at(0).process, SIGSTOP), 0);
  ASSERT_TRUE(is_in_state(ranks, "T"));
  ranks.check(now, 0ms);
  ranks.check(now += 60s, 60s);  // the agent was suspended as well
  ranks.check(now += 2900ms, 0ms);
  ranks.reap();
  EXPECT_FALSE(ranks.failed());
  ranks.check(now += 100ms, 0ms);
  ASSERT_TRUE(reaches(ranks, [&] { return ranks.reap() == 0; }));
  EXPECT_EQ(ranks.code(), 128 + 9);
  EXPECT_EQ(ranks.cause().substr(0, 47), "rank 3 was frozen: a signal has stopped its pro") << ranks.cause();
  EXPECT_EQ(ranks.origin(), (Origin{CauseKind::frozen, std::nullopt, 3}));
}

TEST(NodeRanks, ARankThatADebuggerHoldsIsNotFrozen) {
  auto now = Clock::now();
  NodeRanks ranks(Rank(3), {shell("exec sleep 60")}, {.first = 3s, .between = 3s, .stall = {.stopped = 3s}}, now);
  const pid_t process = ranks.started().at(0).process;
  if (::ptrace(PTRACE_SEIZE, process, nullptr, nullptr) != 0) GTEST_SKIP() << "no process may be traced here";
  ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, process, nullptr, nullptr), 0);
  ASSERT_TRUE(is_in_state(ranks, "t"));
  ranks.check(now, 0ms);
  for (int i = 0; i < 100; ++i) ranks.check(now += 1s, 0ms);
  EXPECT_EQ(state_of_process(process, process), "t") << "it was ended";
}

TEST(NodeRanks, KilledAndEndedWithACodeAreToldApart) {
  NodeRanks killed(Rank(2), {shell("kill -KILL $$")}, {}, Clock::now());
  ASSERT_TRUE(reaches(killed, [&] { return killed.reap() == 0; }));
  EXPECT_EQ(killed.origin(), (Origin{CauseKind::killed, std::nullopt, 2}));
  NodeRanks failed(Rank(2), {shell("exit 70")}, {}, Clock::now());
  ASSERT_TRUE(reaches(failed, [&] { return failed.reap() == 0; }));
  EXPECT_EQ(failed.origin().kind, CauseKind::failed);
}

/// A cgroup of little memory below that of this process, which is in it as long as this object lives: with a sanitizer,
/// a copy of this process alone takes tens of MiB before it runs the rank's program.
class SmallCgroup {
 public:
  SmallCgroup() {
    std::ifstream lines("/proc/self/cgroup");
    for (std::string line; std::getline(lines, line);) {
      const auto at = line.find(":memory:/");
      if (at != std::string::npos) above_ = "/sys/fs/cgroup/memory" + line.substr(at + 8);
    }
    folder_ = above_ / ("distdl-test-" + std::to_string(::getpid()));
    std::error_code error;
    if (above_.empty() || !fs::create_directory(folder_, error)) return;
    is_there_ = write("memory.limit_in_bytes", 256 << 20) && write("cgroup.procs", ::getpid());
  }
  ~SmallCgroup() {
    if (is_there_) std::ofstream(above_ / "cgroup.procs") << ::getpid();
    std::error_code error;
    if (!above_.empty()) fs::remove(folder_, error);
  }
  SmallCgroup(const SmallCgroup&) = delete;
  SmallCgroup& operator=(const SmallCgroup&) = delete;
  bool is_there() const { return is_there_; }

 private:
  bool write(const char* file, long number) const {
    std::ofstream out(folder_ / file);
    out << number << std::flush;
    return out.good();
  }

  fs::path above_, folder_;
  bool is_there_ = false;
};

TEST(NodeRanks, ARankThatTheKernelKillsForLackOfMemoryIsToldFromOtherKills) {
  const SmallCgroup cgroup;
  if (!cgroup.is_there()) GTEST_SKIP() << "no cgroup (v1) of memory can be made here";
  // Else the kernel may choose this process, which is larger with sanitizers.
  const Process large = shell("echo 1000 > /proc/self/oom_score_adj; exec tail /dev/zero");
  NodeRanks ranks(Rank(2), {large}, {}, Clock::now());
  ASSERT_TRUE(reaches(ranks, [&] { return ranks.reap() == 0; }));
  EXPECT_EQ(ranks.code(), 128 + 9);
  EXPECT_EQ(ranks.cause(), "rank 2 was killed for lack of memory in its cgroup");
  EXPECT_EQ(ranks.origin().kind, CauseKind::out_of_memory);
}

TEST(NodeRanks, AStartTakesLongerThanABeat) {
  NodeRanks ranks(Rank(0), {shell("sleep 1; " + kBeating)}, {.first = 20s, .between = 300ms}, Clock::now());
  EXPECT_FALSE(ranks.are_up());
  ASSERT_TRUE(reaches(ranks, [&] { return ranks.are_up(); }));
  EXPECT_FALSE(ranks.failed());
}

TEST(NodeRanks, AnAgentThatWasStarvedBlamesNoRank) {
  auto now = Clock::now();
  NodeRanks ranks(Rank(0), {shell(kBeating)}, {.first = 20s, .between = 1s}, now);
  ASSERT_TRUE(reaches(ranks, [&] { return ranks.are_up(); }));
  NodeRanks silent(Rank(0), {shell("sleep 60")}, {.first = 1s, .between = 1s}, now);
  silent.check(now + 30s, 30s);
  silent.reap();
  EXPECT_FALSE(silent.failed());
  silent.check(now + 31s + 1ms, 0s);
  ASSERT_TRUE(reaches(silent, [&] { return silent.reap() == 0; }));
  EXPECT_EQ(silent.cause(), "rank 0 was frozen");
}

TEST(NodeRanks, AreAskedToStop) {
  NodeRanks ranks(Rank(0), {shell("trap 'exit 75' USR1; " + kBeating)}, {}, Clock::now());
  ASSERT_TRUE(reaches(ranks, [&] { return ranks.are_up(); }));
  ranks.stop(SIGUSR1, Clock::now());
  ASSERT_TRUE(reaches(ranks, [&] { return ranks.reap() == 0; }));
  EXPECT_EQ(ranks.code(), 75);
}

TEST(Processors, AreSharedInEqualParts) {
  const auto one = processors_of_ranks(1);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_NE(one[0], "");
  const auto many = processors_of_ranks(100000);
  EXPECT_EQ(many[0], "") << "more ranks than processors share all";
}
}  // namespace
}  // namespace distdl::agent
