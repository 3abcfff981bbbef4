// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <distdl/agent/processes.hpp>
#include <distdl/app/sweep/run_pool.hpp>
#include <distdl/app/sweep/sweep_plan.hpp>

namespace distdl::app {

/// How the runs of a sweep are started and stopped.
struct SweepProcesses {
  /// The command that is "distdl run" with these words.
  std::function<std::vector<std::string>(const std::vector<std::string>& words)> command;
  std::map<std::string, std::string> variables = {};  ///< of that command
  int stop_signal = 0;                                ///< asks a run to save and stop
};

/// The words of "distdl run" for a run of the sweep: the job file, and --set for each of its keys. `end_at`: see
/// SweepRung.
std::vector<std::string> words_of_run(const Sweep& sweep, std::size_t run, const SweepPoint& point,
                                      std::int64_t end_at);

/// Trains the runs of a sweep, Sweep::at_once at a time, and decides which go on. What is done stands in the folders of
/// the runs; so a sweep that was stopped or killed goes on where it was.
class SweepDriver {
 public:
  /// References must outlive it.
  SweepDriver(const Sweep& sweep, const SweepProcesses& processes, agent::SupervisorSignals& signals);
  /// Until nothing is left to do, or a signal came. Returns the exit code: ok; requeue if it was stopped; that of the
  /// last run that failed, if all have. `retries`: runs that had failed before are tried again.
  int run(bool retries);

 private:
  std::vector<SweptRun> told() const;
  /// False if the sweep is to stop.
  bool train(const SweepRung& rung);
  void start(std::size_t run, std::int64_t end_at);
  void note(const RunPool::Ended& ended, std::int64_t end_at);
  void stop(const std::string& reason);

  const Sweep& sweep_;
  const SweepProcesses& processes_;
  agent::SupervisorSignals& signals_;
  const std::vector<SweepPoint> points_;
  RunPool pool_;
  std::set<std::size_t> failed_;    ///< of those that were started here
  std::set<std::size_t> retrying_;  ///< that had failed before, and were not started since
  int failure_ = 0;                 ///< code of the last of them
  bool is_stopping_ = false;
};

}  // namespace distdl::app
