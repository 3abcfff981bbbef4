// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/slurm/allocation.hpp>

namespace distdl::slurm {

/// The names of the job's nodes. Throws SchedulerError if its list of them is none.
std::vector<std::string> nodes_of(const Allocation& allocation);

/// The smallest number of nodes with which the job may begin (sbatch --nodes=MIN-MAX); nothing if Slurm does not report
/// it.
std::optional<int> fewest_nodes(const Allocation& allocation);

struct PartitionNodes {
  std::vector<std::string> usable;  ///< they work or are free to
  std::vector<std::string> others;  ///< down, drained or reserved now
};
/// Returns the nodes of these partitions, "batch,urgent"; empty: those of the default one. Throws SchedulerError if
/// Slurm does not answer.
PartitionNodes partition_nodes(const std::string& partitions);

/// Bytes of the largest memory of any of their nodes; nothing if Slurm does not report it, or counts no memory. Empty:
/// the default partition.
std::optional<std::uint64_t> most_node_memory(const std::string& partitions);

/// Joules that the nodes of these jobs have used meanwhile, by Slurm's accounting, which outlives the jobs; nothing if
/// it has none, or no plug-in that gathers energy. Throws SchedulerError if one is the id of no job.
std::optional<double> accounted_energy(const std::vector<std::string>& jobs);

/// True if Slurm has a step of the job with this name that has not ended; nothing if Slurm does not answer.
std::optional<bool> has_step(const Allocation& allocation, const std::string& name);

/// The results of one task on each of some nodes.
struct Probe {
  std::vector<std::string> answering;  ///< it ran there within the limit; in the order asked for
  std::vector<std::string> silent;
  std::size_t lacking = 0;  ///< number of silent nodes where it ran, but a file was not there
  std::string cause;        ///< why not on the first silent node, in srun's words, or which file it lacks
};

/// Starts a task on each of the nodes of the job, some at a time, in addition to what runs there. The task checks that
/// all `files` exist, since a node may return before its file systems are mounted. When `is_over()` returns true, no
/// more tasks are started, and the remaining nodes count as silent. Any thread may call `is_over`.
Probe probe(const Allocation& allocation, const std::vector<std::string>& nodes, const std::vector<std::string>& files,
            Milliseconds limit, const std::function<bool()>& is_over);

}  // namespace distdl::slurm
