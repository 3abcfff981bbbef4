// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <csignal>
#include <string>

#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <distdl/agent/program_look.hpp>

namespace distdl::agent {
namespace {
using testing::ElementsAre;

TEST(ProgramLook, TakesTheThreadsOfADump) {
  EXPECT_THAT(stacks_in("Process 7: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
                        "Thread 7 (active): \"MainThread\"\n    step (train.py:12)\n\n    <module> (train.py:20)\n"),
              ElementsAre("Thread 7 (active): \"MainThread\"", "step (train.py:12)", "<module> (train.py:20)"));
  EXPECT_THAT(stacks_in("no threads"), ElementsAre());
  EXPECT_EQ(stacks_in("Thread 1\n" + std::string(1000000, '\n') + std::string(1000, 'x')).back().size(), 200U);
}

TEST(ProgramLook, ARankWithoutProcessesHasNone) {
  pid_t process = 0;
  std::string name = "sleep", seconds = "60";
  std::array<char*, 3> words{name.data(), seconds.data(), nullptr};
  ASSERT_EQ(::posix_spawnp(&process, "sleep", nullptr, nullptr, words.data(), environ), 0);
  EXPECT_FALSE(look_at_program(process, Milliseconds(1000)));
  EXPECT_TRUE(look_at_program(::getpid(), Milliseconds(1000)));
  ::kill(process, SIGKILL);
  ::waitpid(process, nullptr, 0);
}
}  // namespace
}  // namespace distdl::agent
