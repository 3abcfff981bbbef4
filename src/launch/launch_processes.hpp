// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <distdl/agent/processes.hpp>
#include <distdl/launch/options.hpp>
#include <distdl/launch/supervisor.hpp>

namespace distdl::launch {

/// The name of the Slurm step of a launch: "distdl-<launch_id>".
std::string step_name(const std::string& launch_id);

/// The most ranks that a node runs. A spare has room for as many.
int ranks_on_a_node(const LaunchSpec& spec);

/// How many nodes of its job a launch cannot do without. `fewest`: with how many the job may begin
/// (slurm::fewest_nodes); nothing: not known. A job can always do without its spares.
int nodes_needed(const LaunchSpec& spec, std::optional<int> fewest);

/// `spec` on these nodes of its job only, with as many ranks on each as before, and no more GPUs in all than they have.
/// Spares take the places of nodes that are missing, as far as there are any. Empty: on all of them.
LaunchSpec on_nodes(LaunchSpec spec, const std::vector<std::string>& nodes);

/// The srun of a step with this name: one task on each node of the job, which runs `command`.
std::vector<std::string> srun_on_each_node(const LaunchSpec& spec, const std::string& step,
                                           const std::vector<std::string>& command);

/// The processes of one launch: `ranks` local ones with the rendezvous folder `rendezvous`, or one srun whose step has
/// the name step_name(launch_id).
std::vector<agent::Process> processes_of(const LaunchSpec& spec, const Options& options,
                                         const std::filesystem::path& rendezvous, const std::string& launch_id);

}  // namespace distdl::launch
