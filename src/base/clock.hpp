// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace distdl {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

/// The point in time at which a wait ends.
class Deadline {
 public:
  static Deadline after(Clock::duration timeout) { return Deadline(Clock::now() + timeout); }
  explicit Deadline(Clock::time_point when) : when_(when) {}
  bool expired() const { return Clock::now() >= when_; }
  /// Time left, never negative.
  Clock::duration remaining() const { return std::max(Clock::duration::zero(), when_ - Clock::now()); }
  Clock::time_point when() const { return when_; }

 private:
  Clock::time_point when_;
};

/// Seconds of wall clock time since 1970, for records that other processes read.
inline double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Whole seconds of wall clock time since 1970, as file systems count them in stat's st_mtime.
inline std::int64_t whole_seconds_since_1970() {
  return std::time(nullptr);
}

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void restart() { start_ = Clock::now(); }

 private:
  Clock::time_point start_ = Clock::now();
};

}  // namespace distdl
