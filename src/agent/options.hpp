// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <distdl/base/one_of.hpp>

namespace distdl::agent {

/// Who starts the ranks again after one was lost.
enum class Recovery { agents, relaunch };
constexpr std::array<Named<Recovery>, 2> choices_of(Recovery) {
  return {{
      {Recovery::agents, "agents",
       "an agent on each node starts them again within seconds, on the nodes that are left"},
      {Recovery::relaunch, "relaunch", "a new srun starts them, once Slurm can"},
  }};
}

struct Options {
  OneOf<Recovery> recovery = Recovery::agents;
  std::int64_t spares = 0;      ///< nodes of the job without ranks until a node is lost
  std::int64_t most_nodes = 0;  ///< nodes that run ranks, with nodes of jobs that join; 0: as many as at the start
  /// A file that `distdl health --train` has written; empty: no predictions.
  std::string failure_predictor = {};
  double node_lost_seconds = 4;  ///< a node without a heartbeat for so long is lost; below 2 s false alarms are likely
  double rank_frozen_seconds = 3;  ///< a rank without a sign of life for so long is ended
  double regrow_seconds = 10;      ///< a lost node that is back for so long is used again; 0: never
  double stalled_seconds =
      25;  ///< a rank in one phase for ten times the longest before, and so long, is ended; 0: none
  double stalled_save_seconds = 300;   ///< the same, for the phases of a save
  double stalled_stop_seconds = 10;    ///< in the place of stalled_seconds once the run was asked to stop; 0: the same
  double stalled_at_most_seconds = 0;  ///< no phase may take longer, also one that was never seen before; 0: none
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("run.recovery", options.recovery, OneOf<Recovery>::help("under Slurm, after a rank or node was lost"));
  visit("run.spares", options.spares,
        "under Slurm: nodes of the job that run no ranks until a node is lost; with run.recovery = \"agents\"");
  visit(
      "run.most_nodes", options.most_nodes,
      "under Slurm: nodes of jobs that join the run (\"distdl submit --join\") run ranks until so many nodes do; 0: as "
      "many as its launch began with, without its spares");
  visit("run.failure_predictor", options.failure_predictor,
        "a file of \"distdl health --train\": while a node is likely to fail, checkpoints are made more often, and a "
        "spare "
        "takes its place");
  visit("run.node_lost_seconds", options.node_lost_seconds,
        "a node whose agent has sent no heartbeat for so many seconds is lost; so is, after a launch that failed, one "
        "whose host answers nothing for so long");
  visit("run.rank_frozen_seconds", options.rank_frozen_seconds,
        "a rank whose process a signal has stopped, or that has given no sign of life, for so many seconds is ended, "
        "and the run recovers");
  visit(
      "run.regrow_seconds", options.regrow_seconds,
      "under Slurm: a node that was lost and is back, or that has joined, runs ranks after so many seconds: all ranks "
      "save, and start again with it; 0: never");
  visit("run.stalled_seconds", options.stalled_seconds,
        "a rank that is in one phase for ten times as long as ever before, and for so many seconds, is ended, and the "
        "run recovers; 0: never");
  visit("run.stalled_save_seconds", options.stalled_save_seconds,
        "the same for the phases of a save, which no limit below so many seconds ends");
  visit("run.stalled_stop_seconds", options.stalled_stop_seconds,
        "the same once the run was asked to stop, if it is less than run.stalled_seconds: a rank that hangs then is "
        "ended, and the next start resumes from the last checkpoint; 0: no difference");
  visit("run.stalled_at_most_seconds", options.stalled_at_most_seconds,
        "no phase of a rank may take longer, not even the first evaluation or save; 0: those have no limit");
}

/// How many nodes of a launch are to run ranks, if it begins with `nodes`.
std::size_t wanted_nodes(const Options& options, std::int64_t nodes);

/// Throws ConfigError for values that make no sense.
void check(const Options& options);

}  // namespace distdl::agent
