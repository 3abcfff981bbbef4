// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <distdl/base/one_of.hpp>

namespace distdl::launch {

/// The reaction of a run to SIGHUP.
enum class Hangup { stop, ignore };
constexpr std::array<Named<Hangup>, 2> choices_of(Hangup) {
  return {{
      {Hangup::stop, "stop", "save and stop"},
      {Hangup::ignore, "ignore", "continue, as a run under nohup always does"},
  }};
}

/// How the ranks of a Slurm step find each other.
enum class Mpi { choose, pmix, none };
constexpr std::array<Named<Mpi>, 3> choices_of(Mpi) {
  return {{
      {Mpi::choose, "auto", "pmix where srun has it"},
      {Mpi::pmix, "pmix", ""},
      {Mpi::none, "none", "by files in the run folder"},
  }};
}

/// When nodes are checked before ranks are started on them.
enum class Preflight { on, always, off };
constexpr std::array<Named<Preflight>, 3> choices_of(Preflight) {
  return {{
      {Preflight::on, "on", "at each start of a Slurm job"},
      {Preflight::always, "always", "also with --local"},
      {Preflight::off, "off", ""},
  }};
}

struct Options {
  std::int64_t relaunches = 3;  ///< relaunches in a row without progress before the run gives up
  bool requeue = true;          ///< under Slurm, requeue the job when it stops with work left
  double pause_seconds = 8;     ///< under Slurm: pause before the second relaunch in a row; doubled each time
  double grace_seconds = 5;     ///< time for the other ranks to end after the first one has failed
  double probe_seconds = 15;  ///< under Slurm: a node that does not run a task within this time counts as not answering
  double node_minutes = 10;   ///< under Slurm: longest wait until enough nodes answer; above SlurmdTimeout
  double scheduler_minutes = 10;  ///< how long to repeat a requeue while Slurm's controller does not answer
  double step_seconds = 30;       ///< under Slurm: time between checks whether srun's step exists; not a key
  /// Under Slurm: launches in a row that each lose a node before the run gives up; not a key.
  std::int64_t lost_launches = 120;
  OneOf<Hangup> hangup = Hangup::stop;
  OneOf<Mpi> mpi = Mpi::choose;
  OneOf<Preflight> preflight = Preflight::on;
  double preflight_seconds = 10;  ///< longest time of the check; a node that has not reported by then is silent
  double slow_node_share = 0.5;   ///< share of the median speed below which a node is slow; 0: no node is slow
  double bad_node_hours = 1;      ///< a node that was left out is not used again for so long, if there are others
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("run.relaunches", options.relaunches,
        "number of relaunches after lost ranks before the run gives up. The count restarts after a new checkpoint, a "
        "start from a newer snapshot, or a loss after another step than before");
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
        "--nodes=MIN-MAX), or Slurm has given up the others. Then the job is requeued. Must be above Slurm's "
        "SlurmdTimeout (5)");
  visit("run.scheduler_minutes", options.scheduler_minutes,
        "under Slurm: minutes to retry if the job must be requeued and the controller does not answer");
  visit("run.hangup", options.hangup, OneOf<Hangup>::help("what happens when the terminal is closed (SIGHUP)"));
  visit("run.mpi", options.mpi, OneOf<Mpi>::help("under Slurm: how ranks and agents find each other (srun --mpi)"));
  visit("run.preflight", options.preflight,
        OneOf<Preflight>::help("check the nodes before ranks are started on them, and leave out wrong and slow ones"));
  visit("run.preflight_seconds", options.preflight_seconds,
        "longest time of that check; a node that has not reported by then is left out like a slow one");
  visit("run.bad_node_hours", options.bad_node_hours,
        "under Slurm: hours for which later starts, requeued jobs and jobs that are submitted avoid a node that was "
        "left out");
  visit("run.slow_node_share", options.slow_node_share,
        "a node is slow if that check finds less than this share of the median speed; 0: none is");
}

}  // namespace distdl::launch
