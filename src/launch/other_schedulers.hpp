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

// When a job ends under a scheduler other than Slurm. A run there is one on one machine ("distdl run --local") as far
// as distdl knows; what it gets is the time at which to save and stop.
namespace distdl::launch {

/// What the readers ask: variables, commands, and when the session of this process began. Tests give others.
struct Surroundings {
  std::function<std::optional<std::string>(const std::string& name)> variable;
  std::function<CommandResult(const std::vector<std::string>& command)> run;
  std::chrono::system_clock::time_point now;
  std::optional<std::chrono::system_clock::time_point> session_began;  ///< nothing: not known

  static Surroundings real();
};

/// The end of the job and who told it.
struct OtherEnd {
  std::chrono::system_clock::time_point end;
  std::string source;  ///< "PBS_WALLTIME", "qstat", "bjobs", "flux job timeleft"
};

/// Of the scheduler whose job this is:
///   PBS   (PBS_JOBID)    PBS_WALLTIME, in seconds, from the begin of the session, which is the job's script; where
///   that
///                        is not set, as in OpenPBS, "qstat -f" tells the limit and the start
///   LSF   (LSB_JOBID)    "bjobs -o time_left"
///   Flux  (FLUX_JOB_ID)  "flux job timeleft"
/// Nothing if this is no such job, it has no limit, or it is not told.
std::optional<OtherEnd> end_under_other_scheduler(const Surroundings& surroundings = Surroundings::real());

// The readers of what these commands print, for any text.

/// Of "qstat -f JOB": Resource_List.walltime counted from stime (OpenPBS) or start_time (Torque), else
/// Walltime.Remaining from `now`.
std::optional<std::chrono::system_clock::time_point> end_in_qstat(const std::string& text,
                                                                  std::chrono::system_clock::time_point now);
/// Of "bjobs -noheader -o time_left": "0:12 L" are hours and minutes to a limit, "00:12:05 L" (-hms) also seconds;
/// with E or X they are an estimate, and "-" is no limit.
std::optional<std::chrono::seconds> time_left_in_bjobs(const std::string& text);
/// Of "flux job timeleft": whole seconds; a job without a limit has 2^32 - 1 or more.
std::optional<std::chrono::seconds> time_left_in_flux(const std::string& text);

}  // namespace distdl::launch
