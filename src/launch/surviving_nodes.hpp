// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <distdl/agent/processes.hpp>
#include <distdl/launch/options.hpp>
#include <distdl/launch/supervisor.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::launch {

/// The nodes for the next launch after one under Slurm has failed.
struct NextNodes {
  enum class Decision {
    launch,   ///< launch on `nodes`
    requeue,  ///< too few nodes answered for too long, or a signal asks to stop
    end,      ///< Slurm ends or restarts this job itself
  };
  Decision decision = Decision::launch;
  std::vector<std::string> nodes = {};  ///< empty: all nodes of the job
  bool lost = false;  ///< a node of the previous launch does not answer, so the run did not cause the failure
};

/// Finds the nodes of the launch's job that answer and see all of `files`. Returns at once if these are all nodes, or
/// as many as nodes_needed() says, if need be with nodes of LaunchSpec::second_choice. Otherwise waits up to
/// run.node_minutes until that is so, or until Slurm has ended or restarted the job. Nodes that lack a file during the
/// whole time are used again, because a requeue would not give them the file. `before`: the nodes of the failed launch;
/// empty: all. `silent`: nodes that were found silent a moment ago, which are asked again only where the others do not
/// suffice.
NextNodes surviving_nodes(const LaunchSpec& spec, const std::vector<std::string>& files,
                          const std::vector<std::string>& before, const std::vector<std::string>& silent,
                          const Options& options, agent::SupervisorSignals& signals);

/// `next` without the nodes `wrong`, if need be with nodes of LaunchSpec::second_choice that answer and see all of
/// `files`; a requeue if fewer nodes than nodes_needed() are left.
NextNodes without_wrong(NextNodes next, const LaunchSpec& spec, const std::vector<std::string>& files,
                        const std::vector<std::string>& wrong, const Options& options);

/// Whether one of the nodes is known to lack one of the files. If `nodes` is empty, all nodes of the job are checked.
bool one_lacks(const slurm::Allocation& allocation, const std::vector<std::string>& files,
               const std::vector<std::string>& nodes, const Options& options);

}  // namespace distdl::launch
