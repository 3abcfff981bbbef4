// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/pace.hpp"
#include <distdl/agent/processes.hpp>
#include <distdl/agent/rank_look.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::agent {
namespace {
Process ending_with(int code) {
  const auto number = std::to_string(code > 128 ? code - 128 : code);
  return {{"/bin/sh", "-c", code > 128 ? "kill -" + number + " $$" : "exit " + number}, {}};
}

TEST(Processes, TheWorstCodeIsTheirCodeAndTheCause) {
  // Worse codes first: what a relaunch cannot help, wrong bits, crashes, lost peers, a stop.
  for (const auto& [worse, other] : {std::pair(78, 72), {74, 72}, {78, 137}, {72, 137}, {137, 69}, {70, 69}, {69, 75}})
    for (const bool is_first : {true, false}) {
      Processes processes({ending_with(is_first ? worse : other), ending_with(is_first ? other : worse)});
      for (const auto limit = Deadline::after(paced(std::chrono::seconds(20))); processes.reap() > 0;) {
        ASSERT_FALSE(limit.expired());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_EQ(processes.code(), worse) << other;
      ASSERT_TRUE(processes.cause());
      EXPECT_EQ(processes.cause()->code, worse) << other;
      EXPECT_EQ(processes.cause()->index, is_first ? 0u : 1u) << worse << " " << other;
    }
}

/// A cgroup (v1) that can freeze processes: those do not end even when they are killed, as in a file system that hangs.
class Freezer {
 public:
  Freezer() {
    std::ifstream lines("/proc/self/cgroup");
    for (std::string line; std::getline(lines, line);)
      if (const auto at = line.find(":freezer:"); at != std::string::npos)
        folder_ = "/sys/fs/cgroup/freezer" + line.substr(at + 9) + "/distdl-test-" + std::to_string(::getpid());
    std::error_code error;
    is_there_ = !folder_.empty() && std::filesystem::create_directory(folder_, error);
  }
  ~Freezer() {
    if (!is_there_) return;
    write("freezer.state", "THAWED");
    for (int i = 0; i < 5000 && ::rmdir(folder_.c_str()) != 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;
  /// False if there is none here.
  bool freeze(pid_t process) const {
    if (!is_there_ || !write("cgroup.procs", std::to_string(process)) || !write("freezer.state", "FROZEN"))
      return false;
    while (state_of_process(process, process) != "D") std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return true;
  }

 private:
  bool write(const char* file, const std::string& text) const {
    return (std::ofstream(folder_ + "/" + file) << text << std::flush).good();
  }
  std::string folder_;
  bool is_there_ = false;
};

TEST(Processes, OneThatCannotBeKilledIsLeftBehind) {
  const Freezer freezer;
  const Process sleeping{{"sleep", "60"}, {}};
  Processes processes({ending_with(0), sleeping}, std::chrono::milliseconds(50));
  if (!freezer.freeze(*processes.pid_of(1))) GTEST_SKIP() << "no cgroup (v1) that freezes can be made here";
  processes.kill(1, 137);
  for (const auto limit = Deadline::after(paced(std::chrono::seconds(20))); processes.reap() > 0;) {
    ASSERT_FALSE(limit.expired());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(processes.code(), 137);
  const auto began = Clock::now();
  std::optional<Processes> others(std::in_place, std::vector{sleeping}, std::chrono::milliseconds(50));
  ASSERT_TRUE(freezer.freeze(*others->pid_of(0)));
  others.reset();
  EXPECT_LT(Clock::now() - began, paced(std::chrono::seconds(20))) << "the destructor does not wait for it either";
}
}  // namespace
}  // namespace distdl::agent
