// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <distdl/base/ids.hpp>

namespace distdl::train {

/// The surroundings of one rank, as the questions that a run asks them. The defaults are those of a process that nobody
/// stops. A run asks in the thread that called run(); an exception of an answer ends the run.
class Host {
 public:
  Host() = default;
  virtual ~Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /// Asked between steps on every rank; a reason makes all ranks save at the same step and stop.
  virtual std::optional<std::string> stop_request() { return std::nullopt; }
  /// Asked during evaluations on every rank; true gives the evaluation up, saves and stops.
  virtual bool stop_is_pending() { return false; }
  /// Asked between steps on rank 0: true makes a checkpoint after the next step, besides those that are due.
  virtual bool save_requested() { return false; }
  /// Called between steps on every rank. `is_saving` returns true while a save is under way on this rank: a host that
  /// must have each save waits here until the last one is done.
  virtual void between_steps(const std::function<bool()>& /*is_saving*/) {}
  /// Asked between steps: true if this process was stopped and continued since the last question. Then its
  /// measurements count for nothing, and the end of the job may have moved.
  virtual bool was_suspended() { return false; }
  /// True if end_of_job() may ever return a time.
  virtual bool follows_end_of_job() { return false; }
  /// Asked between steps, now and then, on rank 0: the end of the job, if it is another one than that of
  /// Setting::limits.
  virtual std::optional<std::chrono::system_clock::time_point> end_of_job() { return std::nullopt; }
  /// Asked on rank 0 after a restore: the loss of the step after `step`, as an earlier start recorded it.
  virtual std::optional<double> recorded_loss(Step /*step*/) { return std::nullopt; }
  /// Asked on each rank: the measured peak of a rank with this backend (Backend::description()) on its kind of node, in
  /// FLOPs per second; 0: nobody has measured it.
  virtual double peak_flops(const std::string& /*backend*/) { return 0; }
};

}  // namespace distdl::train
