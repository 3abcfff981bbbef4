// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/parallel/server/rules.hpp>

namespace distdl::parallel::server {

/// Measures how long a worker waits for each range's server, from its pull or push to the answer: the time of the bytes
/// on their way, and of the server's work. It does not count how long a server waits itself, as for other workers'
/// gradients. So it finds a server that is slow, that shares its processors, is suspended again and again, or has a
/// slow link.
class AnswerTimes {
 public:
  explicit AnswerTimes(int ranges) : seconds_(static_cast<std::size_t>(ranges)) {}

  /// Call when a pull or push leaves, or is repeated.
  void asked(int range, Clock::time_point now) { asked_.try_emplace(range, now); }
  /// Call when the answer is there. `idle_seconds`: time in which the server could not answer yet; impossible values
  /// count as 0.
  void answered(int range, double idle_seconds, Clock::time_point now);
  /// Sum of the seconds of each range.
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  std::map<int, Clock::time_point> asked_;  ///< requests without an answer
  std::vector<double> seconds_;
};

/// Measures how long a server could not answer the pulls of each worker: until the message came that made it possible.
class IdleTimes {
 public:
  /// Call when a message is there, before it is handled.
  void came(Clock::time_point now) { handled_ = now; }
  /// Call if the message is a pull of this worker.
  void pulled(Node worker) { pulled_.try_emplace(worker, handled_); }
  /// Call when the answer leaves. Returns the idle seconds.
  double answered(Node worker);

 private:
  Clock::time_point handled_{};
  std::map<Node, Clock::time_point> pulled_;
};

}  // namespace distdl::parallel::server
