// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <thread>

#include <gmock/gmock.h>

#include <distdl/base/process_start.hpp>
#include <distdl/base/signals.hpp>

namespace distdl {
namespace {

/// The mask of signals goes with the thread.
template <class Work>
void in_a_thread(Work&& work) {
  std::thread(std::forward<Work>(work)).join();
}

TEST(Signals, AreReadOneByOneAndNeverKill) {
  in_a_thread([] {
    Signals signals({SIGUSR1, SIGTERM});
    EXPECT_EQ(signals.poll(), std::nullopt);
    EXPECT_EQ(signals.wait(Milliseconds(1)), std::nullopt);
    for (const int number : {SIGTERM, SIGUSR1}) ::pthread_kill(::pthread_self(), number);
    EXPECT_TRUE(stop_is_pending());
    std::vector<int> read{signals.wait(Milliseconds(1000)).value_or(0), signals.poll().value_or(0)};
    EXPECT_THAT(read, testing::UnorderedElementsAre(SIGTERM, SIGUSR1));
    EXPECT_EQ(signals.poll(), std::nullopt);
    EXPECT_FALSE(stop_is_pending());
  });
}

TEST(Signals, AreBlockedInThreadsStartedMeanwhile) {
  in_a_thread([] {
    const auto blocks = [](int number = SIGTERM) {
      sigset_t mask;
      return ::pthread_sigmask(SIG_SETMASK, nullptr, &mask) == 0 && sigismember(&mask, number) == 1;
    };
    const bool before = blocks();
    bool within = false, in_child = false;
    {
      const SignalsBlocked blocked;
      within = blocks();
      in_a_thread([&] {
        in_child = blocks();
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) EXPECT_FALSE(blocks(fault));
      });
    }
    EXPECT_FALSE(before);
    EXPECT_TRUE(within);
    EXPECT_TRUE(in_child);
    EXPECT_FALSE(blocks());
  });
}

TEST(Signals, ThatAskToStopAreFiveUnlessTheTerminalMayGo) {
  std::vector<int> all{SIGTERM, SIGINT, SIGUSR1, SIGUSR2};
  if (!hangup_is_ignored()) all.push_back(SIGHUP);
  EXPECT_THAT(stop_signals(), testing::UnorderedElementsAreArray(all));
}

}  // namespace
}  // namespace distdl
