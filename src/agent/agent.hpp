// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <distdl/agent/options.hpp>
#include <distdl/agent/processes.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/world/world.hpp>

namespace distdl::agent {

/// What an agent of a launch is told; the same on all nodes.
struct AgentSpec {
  std::vector<std::string> worker;    ///< command line of a rank
  std::vector<std::string> at_first;  ///< more arguments for the ranks, until `has_trained` says so
  std::filesystem::path run_folder;   ///< seen by all nodes
  std::string launch_id;              ///< a new one for every launch
  int ranks = 1;                      ///< of all nodes that run ranks at the start
  int min_nodes = 1;                  ///< the run continues on so many
  std::string interface = "auto";     ///< as comm.interface
  Milliseconds grace{2000};           ///< that ranks have to end by themselves after another one was lost
  Milliseconds exchange_timeout{60000};
  Options options;
  std::function<void()> connected = [] {};  ///< called when the agents know each other
  std::function<bool()> has_trained = [] { return true; };
  /// Asked often: whether this node may fail soon. Then a spare takes its place.
  std::function<bool()> is_at_risk = [] { return false; };
  /// Called on one node when the run ends and the node of srun, the first one, is lost: nobody else is left to tell
  /// Slurm. The argument is the exit code of the run.
  std::function<void(int)> without_supervisor = [](int) {};
};

/// The folder of what the agents of a launch agree on.
std::filesystem::path launch_folder(const std::filesystem::path& run_folder, const std::string& launch_id);

/// The exit code with which a launch has ended, as its agents have agreed; nothing if they have not. srun's own code
/// says less: it fails where a node was lost. Throws StorageError.
std::optional<int> agreed_code(const std::filesystem::path& run_folder, const std::string& launch_id);

/// The agent of this node, one rank of `world`: starts the ranks of its node, watches them, exchanges heartbeats with
/// the other agents, and starts the ranks again, on the nodes that are left, after one was lost. Returns the exit code
/// of the launch: ok, requeue (stopped), the ranks' code if a restart would not help, or peer_lost if there are too few
/// nodes. Throws SchedulerError, StorageError, ConfigError.
int run_agent(const AgentSpec& spec, world::World& world, SupervisorSignals& signals);

}  // namespace distdl::agent
