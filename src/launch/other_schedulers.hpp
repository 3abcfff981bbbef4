// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/process.hpp>

// The end of a job under a scheduler other than Slurm. For distdl, such a run is a run on one machine ("distdl run
// --local"). From the scheduler it gets only the time at which to save and stop.
namespace distdl::launch {

/// Sources of the functions below: variables, commands, and the begin of this process's session. Tests replace them.
struct Surroundings {
  std::function<std::optional<std::string>(const std::string& name)> variable;
  std::function<CommandResult(const std::vector<std::string>& command)> run;
  std::chrono::system_clock::time_point now;
  std::optional<std::chrono::system_clock::time_point> session_began;  ///< nothing: unknown

  static Surroundings real();
};

/// The end of the job and its source.
struct OtherEnd {
  std::chrono::system_clock::time_point end;
  std::string source;  ///< "PBS_WALLTIME", "qstat", "bjobs", "flux job timeleft"
};

/// The end of the job that this process belongs to, by scheduler:
///   PBS   (PBS_JOBID)    PBS_WALLTIME after the begin of the session, which is the job's script;
///                        if it is not set, as in OpenPBS: limit and start by "qstat -f"
///   LSF   (LSB_JOBID)    "bjobs -o time_left"
///   Flux  (FLUX_JOB_ID)  "flux job timeleft"
/// Returns nothing if this is no such job, the job has no limit, or the command fails.
std::optional<OtherEnd> end_under_other_scheduler(const Surroundings& surroundings = Surroundings::real());

// Parsers of the output of these commands. They accept any text and return nothing if it has no time limit.

/// The end of a job in the output of "qstat -f JOB": Resource_List.walltime after stime (OpenPBS) or start_time
/// (Torque), else Walltime.Remaining after `now`.
std::optional<std::chrono::system_clock::time_point> end_in_qstat(const std::string& text,
                                                                  std::chrono::system_clock::time_point now);
/// The time left in the output of "bjobs -noheader -o time_left". "0:12 L" has hours and minutes until a limit; a
/// minute is subtracted, because they may be rounded up. "00:12:05 L" (-hms) has seconds too. Returns nothing for
/// estimates (E or X), and for "-", which means no limit.
std::optional<std::chrono::seconds> time_left_in_bjobs(const std::string& text);
/// The time left in the output of "flux job timeleft": whole seconds; 2^32 - 1 or more mean no limit.
std::optional<std::chrono::seconds> time_left_in_flux(const std::string& text);

}  // namespace distdl::launch
