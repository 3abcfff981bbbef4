// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <optional>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/file_descriptor.hpp>

namespace distdl {

/// SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP. Sites send different ones before a preemption or a time limit, and all
/// of them mean "save and stop". SIGHUP is not in the list if it was ignored at program start (nohup).
std::vector<int> stop_signals();
/// Whether one of them is pending: it was sent and not yet read by a Signals object. Thread-safe.
bool stop_is_pending();
/// Whether one of them was ever sent to this process: it is pending, or was read. Thread-safe.
bool stop_was_sent();

/// While it lives, the calling thread takes no signals, and a thread that it starts meanwhile never will: but for those
/// of faults, whose handlers have work to do, such as giving a terminal back.
class SignalsBlocked {
 public:
  /// Throws SchedulerError.
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// Signals as a file descriptor (signalfd). Not thread-safe.
class Signals {
 public:
  /// Blocks the signals in the calling thread, and in the threads that it starts later. Throws SchedulerError.
  explicit Signals(const std::vector<int>& numbers);
  /// Returns the number of a signal, or nothing if none was received. Never blocks.
  std::optional<int> poll();
  /// Waits for a signal. Returns nothing after `timeout`.
  std::optional<int> wait(Milliseconds timeout);
  /// The descriptor is readable while there is an unread signal.
  int descriptor() const { return descriptor_.get(); }

 private:
  FileDescriptor descriptor_;
};

}  // namespace distdl
