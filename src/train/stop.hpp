// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <distdl/base/file_descriptor.hpp>
#include <distdl/base/signals.hpp>

namespace distdl::train {

/// The signals that ask to stop, as a state that is polled between two steps.
class StopSignals {
 public:
  /// Blocks the signals as Signals does. Throws SchedulerError.
  StopSignals() : signals_(stop_signals()) {}
  /// The first signal that was received, such as "signal SIGTERM". It is kept once it is set. Never blocks.
  const std::optional<std::string>& poll();
  /// The descriptor is readable while there is a signal that poll() has not seen.
  int descriptor() const { return signals_.descriptor(); }

 private:
  Signals signals_;
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

/// Decides when to stop, from the end of the job and the measured times of steps and saves.
class EndOfJob {
 public:
  using Time = std::chrono::system_clock::time_point;
  EndOfJob(std::optional<Time> end, double margin_seconds) : end_(end), margin_(margin_seconds) {}

  void step_took(double seconds) { longest_step_ = std::max(longest_step_, seconds); }
  void save_took(double seconds) { longest_save_ = std::max(longest_save_, seconds); }
  /// Records a save that wrote only to the nodes' memory or disks.
  void snapshot_took(double seconds) { longest_snapshot_ = std::max(longest_snapshot_, seconds); }
  /// A reason to stop now, because there might not be time for a save after one more step. `saving`: another save is
  /// under way, or would begin after this step, so that the last save has to wait for it.
  std::optional<std::string> poll(Time now, bool saving = false) const;

 private:
  std::optional<Time> end_;
  double margin_;
  double longest_step_ = 0, longest_save_ = 0, longest_snapshot_ = 0;
};

}  // namespace distdl::train
