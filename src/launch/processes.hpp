// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include <sys/types.h>

#include <distdl/base/clock.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/launch/supervisor.hpp>

namespace distdl::launch {

/// The signals that a supervisor handles: those that ask to stop, and SIGCHLD.
class SupervisorSignals {
 public:
  SupervisorSignals() : signals_(numbers()) {}
  /// Waits for a signal. Returns nothing after `timeout`.
  std::optional<int> wait(Milliseconds timeout) { return signals_.wait(timeout); }
  /// Waits for a signal that asks to stop, which SIGCHLD does not.
  std::optional<int> wait_for_stop(Milliseconds timeout);

 private:
  static std::vector<int> numbers();

  Signals signals_;
};

/// The running processes of one launch. The destructor kills them.
class Processes {
 public:
  explicit Processes(const std::vector<Process>& processes);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Collects processes that have ended. Returns the number of running ones.
  std::size_t reap();
  void signal(int number);
  /// Kills the running processes. Their codes do not count as the cause of the failure.
  void kill();
  /// Whether a process ended with a code other than ok.
  bool failed() const { return code_ != 0; }
  /// The highest exit code so far, except that a lost peer counts only as a consequence of other codes. 128 + SIGKILL
  /// if all were killed here.
  int code() const;

 private:
  std::vector<pid_t> running_;
  int code_ = 0;
  bool killed_ = false;
};

}  // namespace distdl::launch
