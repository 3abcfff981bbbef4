// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <distdl/base/one_of.hpp>

namespace distdl::launch {

/// What SIGHUP means to a run.
enum class Hangup { stop, ignore };
constexpr std::array<Named<Hangup>, 2> choices_of(Hangup) {
  return {{
      {Hangup::stop, "stop", "save and stop"},
      {Hangup::ignore, "ignore", "continue, as a run under nohup always does"},
  }};
}

struct Options {
  std::int64_t relaunches = 3;       ///< in a row that bring the run no further before giving up
  bool requeue = true;               ///< under Slurm, requeue the job when it stops with work left
  double pause_seconds = 8;          ///< under Slurm, before the second relaunch in a row; then twice as long each time
  double grace_seconds = 5;          ///< after the first rank ended in failure, the others have so long to end
  double probe_seconds = 15;         ///< under Slurm, a node that runs no task within this time is silent
  double node_minutes = 10;          ///< under Slurm, how long to wait until enough nodes answer; above SlurmdTimeout
  double scheduler_minutes = 10;     ///< how long to go on asking a Slurm controller that is away to requeue the job
  double step_seconds = 30;          ///< under Slurm, between checks whether srun's step exists; not a key
  std::int64_t lost_launches = 120;  ///< under Slurm, in a row that lose a node each before giving up; not a key
  OneOf<Hangup> hangup = Hangup::stop;
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("run.relaunches", options.relaunches,
        "how often a run is relaunched after lost ranks before it gives up; the count restarts with a new checkpoint, "
        "with a "
        "start from a newer snapshot than before, or with a loss after another step than the last time");
  visit("run.requeue", options.requeue, "under Slurm: requeue the job when it must stop with work left");
  visit("run.pause_seconds", options.pause_seconds,
        "under Slurm: pause before the second relaunch in a row without progress; doubled before each next one");
  visit("run.grace_seconds", options.grace_seconds,
        "seconds for the other ranks to end by themselves after the first rank has failed; under Slurm, after the "
        "first rank has ended for any reason (srun's `--wait`)");
  visit("run.probe_seconds", options.probe_seconds,
        "under Slurm: seconds until a node that does not run a task counts as not answering; must "
        "be larger than Slurm's MessageTimeout (10)");
  visit("run.node_minutes", options.node_minutes,
        "under Slurm: minutes to wait after a failed launch until as many nodes answer as the job needs (sbatch "
        "--nodes=MIN-MAX), or Slurm has given up the others; then the job is requeued. Must be above Slurm's "
        "SlurmdTimeout (5)");
  visit("run.scheduler_minutes", options.scheduler_minutes,
        "under Slurm: minutes to retry if the job must be requeued and the controller does not answer");
  visit("run.hangup", options.hangup, OneOf<Hangup>::help("what happens when the terminal is closed (SIGHUP)"));
}

}  // namespace distdl::launch
