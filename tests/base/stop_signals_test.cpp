// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <functional>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/base/process_start.hpp>
#include <distdl/base/stop_signals.hpp>

namespace distdl {
namespace {
using namespace std::chrono_literals;

TEST(StopSignals, RemembersTheFirstSignal) {
  StopSignals signals;
  EXPECT_FALSE(signals.poll());
  ::raise(SIGUSR2);
  EXPECT_EQ(signals.poll(), "signal SIGUSR2");
  ::raise(SIGTERM);
  EXPECT_EQ(signals.poll(), "signal SIGUSR2");
}

/// In a process of its own, which no other test has sent signals; expects that `claim` holds there.
void expect_in_child(const std::function<bool()>& claim) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(claim() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

TEST(StopSignals, ObeysAHangupUnlessItIsIgnored) {
  expect_in_child([] {
    ::signal(SIGHUP, SIG_DFL);
    StopSignals signals;
    ::kill(::getpid(), SIGHUP);
    return signals.poll() == "signal SIGHUP";
  });
  expect_in_child([] {
    StopSignals earlier;
    ignore_hangup();
    StopSignals signals;
    ::kill(::getpid(), SIGHUP);
    return !signals.poll() && !earlier.poll();
  });
}

TEST(StopSignals, KnowThatTheProcessWasSuspended) {
  expect_in_child([] {
    StopSignals signals;
    const bool before = signals.was_suspended();
    ::raise(SIGCONT);
    const bool then = signals.was_suspended();
    return !before && then && !signals.was_suspended() && !signals.poll();
  });
}

TEST(StartWatch, ActsOnASignalUntilTrainingBegins) {
  expect_in_child([] {
    StopSignals signals;
    StartWatch watch(signals, [](const std::string& reason) { ::_exit(reason == "signal SIGTERM" ? 0 : 1); });
    ::kill(::getpid(), SIGTERM);
    ::sleep(60);
    return false;
  });
}

TEST(StartWatch, LeavesLaterSignalsToTheTraining) {
  expect_in_child([] {
    StopSignals signals;
    StartWatch watch(signals, [](const std::string&) { ::_exit(1); });
    watch.end();
    ::kill(::getpid(), SIGTERM);
    return signals.poll() == "signal SIGTERM";
  });
}

}  // namespace
}  // namespace distdl
