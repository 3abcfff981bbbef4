// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "tests/pace.hpp"
#include <distdl/agent/processes.hpp>
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
}  // namespace
}  // namespace distdl::agent
