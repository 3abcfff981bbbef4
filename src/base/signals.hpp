// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <optional>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/file_descriptor.hpp>

namespace distdl {

/// SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP: sites send different ones before a preemption or a time limit, and all
/// of them mean "save and stop". Not SIGHUP where it was ignored when the program started (nohup).
std::vector<int> stop_signals();
/// Whether one of them is pending: sent, and not yet read from a Signals. Thread-safe.
bool stop_is_pending();

/// While it lives, the calling thread takes no signals, and a thread that it starts meanwhile never will.
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
  /// The number of one that came; nothing if there is none. Never blocks.
  std::optional<int> poll();
  /// Waits for one; nothing after `timeout`.
  std::optional<int> wait(Milliseconds timeout);
  /// Readable while there is a signal that was not read.
  int descriptor() const { return descriptor_.get(); }

 private:
  FileDescriptor descriptor_;
};

}  // namespace distdl
