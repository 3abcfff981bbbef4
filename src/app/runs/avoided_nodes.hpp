// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <distdl/observe/health/bad_nodes.hpp>
#include <distdl/slurm/nodes.hpp>

namespace distdl::app {

/// The bad nodes of a run whose cool-down (run.bad_node_hours) is not over, newest first.
std::vector<observe::BadNode> nodes_in_cool_down(const std::filesystem::path& run_folder, double hours);

/// Nodes of `bad` that Slurm must not give to a job, also if they are down now and may be back when it starts: at most
/// so many that `needed` of the usable nodes are left. `excluded`: those that the user has excluded, "n[1-3]".
std::vector<std::string> choose_avoided(const std::vector<observe::BadNode>& bad, const slurm::PartitionNodes& nodes,
                                        const std::string& excluded, std::size_t needed);

/// As choose_avoided(), for a job that is to be submitted and with what Slurm says of the partitions, "batch,urgent";
/// empty: the default one. Throws SchedulerError if Slurm does not tell which nodes they have.
std::vector<std::string> nodes_to_avoid(const std::filesystem::path& run_folder, double hours,
                                        const std::string& partitions, const std::string& excluded, std::size_t needed);

/// Tells Slurm which nodes not to give to a job that waits: the user's, and the run's bad ones. Nodes that distdl has
/// excluded from this job before, and whose cool-down is over, may be used again. Repeated for some seconds: a job that
/// was just requeued ends Slurm's commands too, as all processes of its batch script. What Slurm refuses is a warning.
void exclude_bad_nodes(const std::string& job, const std::filesystem::path& run_folder, double hours);

}  // namespace distdl::app
