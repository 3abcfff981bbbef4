// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <distdl/agent/processes.hpp>
#include <distdl/app/sweep/run_pool.hpp>
#include <distdl/app/sweep/sweep_plan.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/exit_codes.hpp>

namespace distdl::app {

/// How the runs of a sweep are started and stopped.
struct SweepProcesses {
  /// The command that is "distdl run" with these words.
  std::function<std::vector<std::string>(const std::vector<std::string>& words)> command;
  std::map<std::string, std::string> variables = {};  ///< environment variables of that command
  int stop_signal = 0;                                ///< asks a run to save and stop
};

/// The words of "distdl run" for a run of the sweep: the job file, and --set for each of its keys. `end_at`: see
/// SweepRung.
std::vector<std::string> words_of_run(const Sweep& sweep, std::size_t run, const SweepPoint& point,
                                      std::int64_t end_at);

/// Trains the runs of a sweep, Sweep::at_once at a time, and decides which go on. What is done stands in the folders of
/// the runs, and what is decided in that of the sweep; so a sweep that was stopped or killed goes on where it was.
class SweepDriver {
 public:
  /// References must outlive it.
  SweepDriver(const Sweep& sweep, const SweepProcesses& processes, agent::SupervisorSignals& signals);
  /// Until nothing is left to do, or a signal came. Returns the exit code: ok; requeue if it was stopped; superseded if
  /// a run is in use elsewhere; that of the last run that failed, if all have. `retries`: runs that had failed before
  /// are tried again.
  int run(bool retries);

 private:
  /// Facts about a run that did not end by itself, for its next start.
  struct Again {
    int times = 0;                                   ///< starts in a row without a new checkpoint
    std::int64_t saved = -1;                         ///< step of the newest checkpoint at that time
    std::optional<Deadline> patience = {};           ///< time left for another start that has the run
    Deadline pause = Deadline(Clock::time_point());  ///< time until the next start
  };

  std::vector<SweptRun> told() const;
  void decide(const SweepRung& rung, const std::vector<SweptRun>& runs, const SweepDecisions& decisions) const;
  /// False if the sweep is to stop.
  bool train(const SweepRung& rung);
  void start_some(std::int64_t end_at);
  void start(std::size_t run, std::int64_t end_at);
  void note(const RunPool::Ended& ended, std::int64_t end_at);
  /// True if the run is to be started again: it was killed, or its step, rather than that it failed.
  bool starts_again(const RunPool::Ended& ended, const SweptRun& run);
  bool waits_for_other_start(std::size_t run);
  void stop(const std::string& reason, ExitCode code = ExitCode::requeue);

  const Sweep& sweep_;
  const SweepProcesses& processes_;
  agent::SupervisorSignals& signals_;
  const std::vector<SweepPoint> points_;
  RunPool pool_;
  std::deque<std::size_t> waiting_;     ///< runs to be started, in this order
  std::map<std::size_t, Again> again_;  ///< runs that were started more than once
  std::set<std::size_t> failed_;        ///< runs that were started here and failed
  std::set<std::size_t> retrying_;      ///< runs that had failed before, and were not started since
  int failure_ = 0;                     ///< exit code of the last run that failed
  std::optional<ExitCode> stopping_;    ///< the code to end with
};

}  // namespace distdl::app
