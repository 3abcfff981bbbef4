// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/env.hpp>

namespace distdl {

/// Seconds that four threads need to work and meet ten times, as ranks do: 12 ms on two quick processors that are idle.
inline double measure_meetings() {
  std::barrier<> meeting(4);
  const Stopwatch stopwatch;
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&meeting, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 10; ++i) {
        random.discard(100'000);
        [[maybe_unused]] volatile auto used = random();
        meeting.arrive_and_wait();
      }
    });
  threads.clear();
  return stopwatch.seconds();
}

/// How many times slower than a quick and idle machine this one is, with all that runs on it now: at least 2, for
/// another test may begin right after, and at most 6, for what ends at a deadline takes as many times longer. A test
/// program measures it once, and the processes that it starts take over the result. DISTDL_TEST_PACE sets it.
inline double pace() {
  static const double measured = [] {
    if (!env("DISTDL_TEST_PACE")) {
      double longest = 0;
      for (int i = 0; i < 5; ++i) longest = std::max(longest, measure_meetings());
      const auto text = fmt::format("{:.1f}", std::clamp(longest / 12e-3, 2.0, 6.0));
      ::setenv("DISTDL_TEST_PACE", text.c_str(), 1);
    }
    return std::stod(*env("DISTDL_TEST_PACE"));
  }();
  return measured;
}

/// A deadline of a test that would be `seconds` on a quick and idle machine.
inline double paced(double seconds) {
  return seconds * pace();
}
inline Milliseconds paced(Milliseconds time) {
  return Milliseconds(static_cast<Milliseconds::rep>(static_cast<double>(time.count()) * pace()));
}

}  // namespace distdl
