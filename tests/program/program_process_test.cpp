// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <poll.h>
#include <tests/pace.hpp>

#include <distdl/base/child_processes.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>
#include <distdl/program/program_process.hpp>

namespace distdl::program {
namespace {
using testing::ElementsAre;

/// A shell script as a program.
class Script {
 public:
  explicit Script(const std::string& text, int stop_signal = SIGTERM)
      : process(
            {"sh", "-c", text}, environment_with({}),
            [this](std::string_view line, bool is_error, bool) { (is_error ? errors : output).emplace_back(line); },
            stop_signal) {}
  int wait() {
    for (const auto deadline = Deadline::after(std::chrono::seconds(60)); !deadline.expired();) {
      process.read();
      if (const auto code = process.reap()) return *code;
      ::poll(nullptr, 0, 1);
    }
    return -1;
  }
  template <class Condition>
  bool wait_until(Condition&& holds) {
    for (const auto deadline = Deadline::after(std::chrono::seconds(60)); !deadline.expired();) {
      process.read();
      if (holds()) return true;
      ::poll(nullptr, 0, 1);
    }
    return false;
  }
  std::vector<std::string> output, errors;
  ProgramProcess process;
};

TEST(ProgramProcess, ItsOutputAndItsCode) {
  Script script("echo out; echo err >&2; cat; exit 7");
  EXPECT_EQ(script.wait(), 7);
  EXPECT_THAT(script.output, ElementsAre("out"));
  EXPECT_THAT(script.errors, ElementsAre("err"));
}

TEST(ProgramProcess, WhatItHasWrittenBeforeItsEndIsRead) {
  Script script("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done");
  EXPECT_EQ(script.wait(), 0);
  ASSERT_EQ(script.output.size(), 5000U);
  EXPECT_EQ(script.output.back(), "line 4999");
}

TEST(ProgramProcess, SignalsAndSuspension) {
  Script script("trap 'echo got it; exit 3' TERM; echo ready; while :; do sleep 0.01; done");
  ASSERT_TRUE(script.wait_until([&] { return !script.output.empty(); }));
  script.process.signal(SIGSTOP);
  EXPECT_TRUE(script.wait_until([&] { return script.process.is_suspended(); }));
  script.process.signal(SIGCONT);
  EXPECT_TRUE(script.wait_until([&] { return !script.process.is_suspended(); }));
  script.process.signal(SIGTERM);
  EXPECT_EQ(script.wait(), 3);
  EXPECT_THAT(script.output, ElementsAre("ready", "got it"));
}

constexpr auto kSavesWhenAsked = "trap 'echo saved; exit 3' TERM; echo ready; while :; do sleep 0.01; done";

TEST(ProgramProcess, ASignalIsForWhatAShellHasStarted) {
  Script script("sh -c \"" + std::string(kSavesWhenAsked) + "\" | cat; (" + kSavesWhenAsked +
                "); echo code $?; exit 5");
  ASSERT_TRUE(script.wait_until([&] { return script.process.reap() || script.output.size() == 1; }));
  script.process.signal(SIGTERM);
  ASSERT_TRUE(script.wait_until([&] { return script.process.reap() || script.output.size() == 3; }));
  script.process.signal(SIGTERM);
  EXPECT_EQ(script.wait(), 5);
  EXPECT_THAT(script.output, ElementsAre("ready", "saved", "ready", "saved", "code 3"));
}

TEST(ProgramProcess, SignalsThatAreForDistdlDoNotEndIt) {
  Script script("echo ready; sleep 1000; exit 5");
  ASSERT_TRUE(script.wait_until([&] { return !script.output.empty(); }));
  script.process.signal(SIGUSR1);
  script.process.signal(SIGUSR2);
  EXPECT_FALSE(script.process.reap());
  script.process.signal(SIGTERM);
  EXPECT_EQ(script.wait(), 128 + SIGTERM);
}

TEST(ProgramProcess, TheSignalThatAsksItToStopIsNotIgnored) {
  Script script("trap 'exit 3' USR1; echo ready; while :; do sleep 0.01; done", SIGUSR1);
  ASSERT_TRUE(script.wait_until([&] { return !script.output.empty(); }));
  script.process.signal(SIGUSR1);
  EXPECT_EQ(script.wait(), 3);
}

TEST(ProgramProcess, OneThatSavesOutlivesTheShellThatASignalHasEnded) {
  Script script("(" + std::string(kSavesWhenAsked) + "); exit 5");
  ASSERT_TRUE(script.wait_until([&] { return script.process.reap() || !script.output.empty(); }));
  ::kill(script.process.pid(), SIGTERM);
  ASSERT_FALSE(script.wait_until([&] { return state_of(script.process.pid()) == 'Z'; }) && script.process.reap());
  script.process.signal(SIGTERM);
  EXPECT_EQ(script.wait(), 3);
  EXPECT_THAT(script.output, ElementsAre("ready", "saved"));
}

TEST(ProgramProcess, AShellWhoseProcessHasNoHandlerDiesOfASignal) {
  Script script("sh -c 'echo ready; sleep 1000; :'; exit 5");
  ASSERT_TRUE(script.wait_until([&] { return script.process.reap() || !script.output.empty(); }));
  script.process.signal(SIGTERM);
  EXPECT_EQ(script.wait(), 128 + SIGTERM);
}

TEST(ProgramProcess, WhatItLeavesBehindEndsWithIt) {
  Script script(
      "(trap '' TERM HUP; exec setsid sleep 1000) & setsid sh -c 'sleep 1000 & sleep 1000 & exit' ; echo gone");
  EXPECT_EQ(script.wait(), 0);
  EXPECT_THAT(child_processes(), ElementsAre());
}

TEST(ProgramProcess, EndEndsAll) {
  Script script("trap '' TERM; sleep 1000 & setsid sleep 1000 & echo ready; wait");
  ASSERT_TRUE(script.wait_until([&] { return !script.output.empty(); }));
  script.process.end();
  EXPECT_EQ(script.process.reap(), 128 + SIGKILL);
  EXPECT_THAT(child_processes(), ElementsAre());
}

TEST(ProgramProcess, ThatIsNotThere) {
  std::vector<std::string> lines;
  ProgramProcess process({"no-such-program-at-all"}, environment_with({}), [](std::string_view, bool, bool) {});
  for (const auto deadline = Deadline::after(std::chrono::seconds(60)); !process.reap() && !deadline.expired();)
    ::poll(nullptr, 0, 1);
  EXPECT_EQ(process.reap(), 127);
}
}  // namespace
}  // namespace distdl::program
