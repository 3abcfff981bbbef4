// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/process.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::slurm {

/// Runs a command of Slurm, as run_command. One that cannot be started, as this machine has no process or file left,
/// has failed too: nothing of this room ends a run because it cannot look.
CommandResult ask(const std::vector<std::string>& command, Milliseconds limit, Milliseconds grace = {});

/// Why a command of Slurm failed, in its own words on one line: "says \"...\"", or that it did not end within `limit`,
/// or could not be started.
std::string cause_of(const CommandResult& result, Milliseconds limit);

/// The names of the job's nodes. Throws SchedulerError with scontrol's own words.
std::vector<std::string> nodes_of(const Allocation& allocation);

/// The smallest number of nodes with which the job may begin (sbatch --nodes=MIN-MAX); nothing if Slurm does not tell.
std::optional<int> fewest_nodes(const Allocation& allocation);

/// Whether Slurm knows of a step of the job with this name that has not ended; nothing if Slurm does not tell.
std::optional<bool> has_step(const Allocation& allocation, const std::string& name);

/// What became of one task on each of some nodes.
struct Probe {
  std::vector<std::string> answering;  ///< it ran there within the limit; in the order asked for
  std::vector<std::string> silent;
  std::size_t lacking = 0;  ///< of the silent ones: it ran, but a file was not there
  std::string cause;        ///< why not on the first silent one, in srun's words, or which file it lacks
};

/// Starts a task on each of the nodes of the job, some at a time, beside whatever runs there: it looks whether all
/// `files` are there, since a node may be back before its file systems are. Once `is_over()`, which any thread may
/// call, no more are started: the nodes that are left count as silent.
Probe probe(const Allocation& allocation, const std::vector<std::string>& nodes, const std::vector<std::string>& files,
            Milliseconds limit, const std::function<bool()>& is_over);

}  // namespace distdl::slurm
