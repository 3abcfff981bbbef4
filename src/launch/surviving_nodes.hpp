// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <distdl/launch/options.hpp>
#include <distdl/agent/processes.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::launch {

/// The nodes for the next launch after one under Slurm has failed.
struct NextNodes {
  enum class Decision {
    launch,   ///< on `nodes`
    requeue,  ///< too few nodes answered for too long, or a signal asks to stop
    end,      ///< Slurm has decided: it ends or restarts this job itself
  };
  Decision decision = Decision::launch;
  std::vector<std::string> nodes = {};  ///< empty: all of the job
  bool lost = false;  ///< one on which the launch before ran was found silent: the failure was not the run's
};

/// Finds out which of the job's nodes answer, and see all of `files`. Returns at once if they are all or, by the range
/// of nodes that the job asked for, enough; else waits until that is so, or until Slurm has decided about the job: up
/// to run.node_minutes. Nodes that lack a file for all of that time are launched on again: a requeue would not give
/// them the file. `before`: the nodes of the launch that failed; empty: all.
NextNodes surviving_nodes(const slurm::Allocation& allocation, const std::vector<std::string>& files,
                          const std::vector<std::string>& before, const Options& options, agent::SupervisorSignals& signals);

/// Whether one of the nodes is known to lack one of the files. `nodes`: empty: all of the job.
bool one_lacks(const slurm::Allocation& allocation, const std::vector<std::string>& files,
               const std::vector<std::string>& nodes, const Options& options);

}  // namespace distdl::launch
