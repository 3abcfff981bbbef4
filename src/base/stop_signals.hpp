// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/signals.hpp>

namespace distdl {

/// The signals that ask to stop, as a state that is polled between two steps.
class StopSignals {
 public:
  /// Blocks the signals as Signals does. Throws SchedulerError.
  StopSignals();
  /// The first signal that came, "signal SIGTERM"; stays once set. Never blocks.
  const std::optional<std::string>& poll();
  /// Whether the process was stopped and continued (SIGCONT) since the last call, as by "scontrol suspend" and
  /// "resume". Never blocks.
  bool was_suspended();
  /// Readable while there is a signal that poll() has not seen.
  int descriptor() const { return signals_.descriptor(); }

 private:
  Signals signals_, continued_;
  std::optional<std::string> reason_;
};

/// Handles signals while a rank starts. A starting rank waits for other ranks or files and does not poll StopSignals. A
/// separate thread calls `on_signal` with the reason, which ends the process; nothing is lost then.
class StartWatch {
 public:
  /// `signals` must outlive this object. Only this object may use it until end().
  StartWatch(StopSignals& signals, std::function<void(const std::string&)> on_signal);
  ~StartWatch() { end(); }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  /// Called when training begins or the start has failed.
  void end() noexcept;

 private:
  FileDescriptor began_;
  std::jthread thread_;
};

}  // namespace distdl
