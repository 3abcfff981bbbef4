// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include <distdl/base/clock.hpp>

namespace distdl::agent::simulation {

using Time = Clock::time_point;
using Duration = Clock::duration;

/// What happens in simulated time, in order; of equal times what was added first.
class EventQueue {
 public:
  Time now() const { return now_; }
  bool is_empty() const { return events_.empty(); }

  void after(Duration delay, std::function<void()> event) {
    events_.push_back({now_ + std::max(delay, Duration::zero()), order_++, std::move(event)});
    std::ranges::push_heap(events_, later);
  }
  void run_next() {
    std::ranges::pop_heap(events_, later);
    Event event = std::move(events_.back());
    events_.pop_back();
    now_ = event.time;
    event.run();
  }

 private:
  struct Event {
    Time time;
    std::uint64_t order;
    std::function<void()> run;
  };
  static bool later(const Event& a, const Event& b) { return a.time != b.time ? a.time > b.time : a.order > b.order; }

  std::vector<Event> events_;
  std::uint64_t order_ = 0;
  Time now_{std::chrono::seconds(1000)};
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t bound) { return engine_() % bound; }
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  bool chance(double probability) { return uniform() < probability; }
  Milliseconds between(Milliseconds least, Milliseconds most) {
    return least +
           Milliseconds(static_cast<Milliseconds::rep>(below(static_cast<std::size_t>((most - least).count()) + 1)));
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace distdl::agent::simulation
