// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include <distdl/base/clock.hpp>
#include <distdl/base/console.hpp>

// Progress on the console, of work that may take longer than a second.
namespace distdl {

/// "42 s", "3:05 min", "1:02:03 h".
std::string duration_text(double seconds);

/// "12 s, 17 s left": how long work has taken, of which `fraction` is done, and will take at the same speed. The time
/// left is missing where nothing or all is done.
std::string times_text(double fraction, double seconds);

enum class WorkUnit { bytes, samples, rounds, products };
/// Adds to what this process has done. Costs an atomic addition. Thread-safe.
void work_done(WorkUnit unit, std::uint64_t amount) noexcept;

/// Shows on stderr how far the work of a command is, until it is destroyed. On a terminal this is a status line, from
/// the second second on; elsewhere a line after 30 seconds, and then more and more rarely. A quiet process shows
/// nothing, and of several at a time only the first one is shown.
class WorkProgress {
 public:
  /// `what`: "verifying run". `total`: all the work, as work_done() counts it; 0: not known, only the time is shown.
  WorkProgress(std::string what, WorkUnit unit, std::uint64_t total);
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;
  ~WorkProgress();
  /// Names what is being done now.
  void now(const std::string& what);

 private:
  void show();
  std::string text() const;

  Console console_;
  WorkUnit unit_;
  std::uint64_t before_, total_;
  Stopwatch watch_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool has_ended_ = false;
  std::string what_;
  std::thread thread_;
};

}  // namespace distdl
