// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::forecast {

/// Seconds from a loss until the next step, as bench/results/recovery.md measured them: medians.
struct RecoverySeconds {
  double rank = 0.7;       ///< a rank was killed, and starts again on its node
  double spare = 7.1;      ///< a node is lost, and a spare takes its place
  double fewer = 6.6;      ///< a node is lost, and the others continue
  double relaunch = 48.9;  ///< a node is lost, and the ranks start again by a new launch: run.recovery = "relaunch"
  double requeue = 402.2;  ///< the job is requeued, because too few nodes are left
};

/// A run that saves, and loses nodes at random.
struct FailureModel {
  int nodes = 1, least_nodes = 1;  ///< below the least, the job is requeued
  int spares = 0;
  double node_mean_seconds = 0;  ///< mean between failures of one node; 0: none fail
  double repair_seconds = 3600;  ///< until a lost node is back
  bool relaunches = false;       ///< run.recovery = "relaunch"
  RecoverySeconds recovery;
  double restore_seconds = 0;     ///< time of reading the state, in each recovery
  double stall_seconds = 0;       ///< delay of training by a save
  double interval_seconds = 600;  ///< training time between two saves
  double work_seconds = 0;        ///< training time on all nodes, without saves and failures
};

struct Goodput {
  double share = 1;         ///< fraction of the time: training on all nodes that lasts
  double seconds = 0;       ///< duration of the run
  double failures = 0;      ///< number in this time
  double lost_seconds = 0;  ///< training that was done again
  double saving_seconds = 0, recovering_seconds = 0;
  double fewer_nodes_seconds = 0;  ///< time by which training took longer on fewer nodes
};

/// Simulates runs until 2,000 failures are seen, at most 1,000 runs, event by event: saves, failures of nodes
/// (exponential times), also during a recovery, their repairs. Deterministic by `seed`. Returns the means of a run.
Goodput simulate_failures(const FailureModel& model, std::uint64_t seed);

}  // namespace distdl::forecast
