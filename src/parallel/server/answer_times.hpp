// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/parallel/server/rules.hpp>

namespace distdl::parallel::server {

/// How long a worker waits for each range's server, from its pull or push to the answer: what bytes take on their way,
/// and what the server takes for them. It does not count how long a server waits itself, as for other workers'
/// gradients. So it finds a server that is slow, that shares its processors, is suspended again and again, or has a
/// slow link.
class AnswerTimes {
 public:
  explicit AnswerTimes(int ranges) : seconds_(static_cast<std::size_t>(ranges)) {}

  /// A pull or push leaves, or the same again.
  void asked(int range, Clock::time_point now) { asked_.try_emplace(range, now); }
  /// `idle_seconds`: in which the server could not answer yet; numbers that are not possible count as 0.
  void answered(int range, double idle_seconds, Clock::time_point now);
  /// Of each range, in sum.
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  std::map<int, Clock::time_point> asked_;  ///< without an answer
  std::vector<double> seconds_;
};

/// How long a server could not answer the pulls of each worker: until the message came that made it possible.
class IdleTimes {
 public:
  /// A message is there, and is being handled from now on.
  void came(Clock::time_point now) { handled_ = now; }
  /// It is a pull of this worker.
  void pulled(Node worker) { pulled_.try_emplace(worker, handled_); }
  /// Its answer leaves. Returns seconds.
  double answered(Node worker);

 private:
  Clock::time_point handled_{};
  std::map<Node, Clock::time_point> pulled_;
};

}  // namespace distdl::parallel::server
