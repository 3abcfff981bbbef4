// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "tests/agent/simulation/event_queue.hpp"
#include "tests/agent/simulation/schedule.hpp"

namespace distdl::agent::simulation {

/// Which node reaches which, and when a datagram arrives.
class Network {
 public:
  Network(EventQueue& queue, Random& random, std::size_t nodes, const Disturbance& disturbance)
      : queue_(queue), random_(random), disturbance_(disturbance), nodes_(nodes), links_(nodes * nodes) {}

  void cut(std::size_t from, std::size_t to) {
    if (Link& link = at(from, to); link.cuts++ == 0) link.since = queue_.now();
  }
  void heal(std::size_t from, std::size_t to) { --at(from, to).cuts; }
  bool is_up(std::size_t from, std::size_t to) const { return at(from, to).cuts == 0; }
  bool are_connected(std::size_t a, std::size_t b) const { return is_up(a, b) && is_up(b, a); }
  /// How long one of the two directions has been cut; zero: none is.
  Duration cut_for(std::size_t a, std::size_t b) const {
    Duration longest{0};
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)})
      if (!is_up(from, to)) longest = std::max(longest, queue_.now() - at(from, to).since);
    return longest;
  }

  /// Calls `deliver` when the datagram arrives: never, once, or more than once.
  template <class Deliver>
  void send(std::size_t from, std::size_t to, const Deliver& deliver) {
    if (!is_up(from, to) || random_.chance(disturbance_.drop)) return;
    queue_.after(delay(), deliver);
    if (random_.chance(disturbance_.repeat)) queue_.after(delay(), deliver);
    if (random_.chance(disturbance_.stale))
      queue_.after(random_.between(Milliseconds(15000), Milliseconds(40000)), deliver);
  }

 private:
  struct Link {
    int cuts = 0;
    Time since;
  };
  Link& at(std::size_t from, std::size_t to) { return links_[from * nodes_ + to]; }
  const Link& at(std::size_t from, std::size_t to) const { return links_[from * nodes_ + to]; }
  Milliseconds delay() {
    return random_.between(Milliseconds(0),
                           random_.chance(disturbance_.slow) ? disturbance_.slow_delay : disturbance_.delay);
  }

  EventQueue& queue_;
  Random& random_;
  const Disturbance& disturbance_;
  std::size_t nodes_;
  std::vector<Link> links_;
};

}  // namespace distdl::agent::simulation
