// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <distdl/agent/beats.hpp>
#include <distdl/base/stop_signals.hpp>

namespace distdl::app {

/// The signals of a rank's process. Until the rank trains, a signal that asks to stop ends the process with
/// ExitCode::requeue, because there is nothing to save. It must be made before any library starts a thread.
struct WorkerSignals {
  /// Throws SchedulerError.
  WorkerSignals();

  StopSignals stop;
  StartWatch watch;
  int looks = 0;  ///< for a reason to stop: one before each step
  std::unique_ptr<agent::Beats> beats = agent::Beats::from_environment();  ///< to the rank's agent; null: it has none
};

/// Logs that this rank was asked to stop, for this reason, before it trained.
void log_nothing_to_save(const std::string& reason);

}  // namespace distdl::app
