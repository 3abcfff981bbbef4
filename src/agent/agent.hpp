// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <distdl/agent/cause.hpp>
#include <distdl/agent/launch_record.hpp>
#include <distdl/agent/options.hpp>
#include <distdl/agent/processes.hpp>
#include <distdl/agent/stall_watch.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/world/world.hpp>

namespace distdl::agent {

/// A generation of a launch that broke off.
struct BrokenOff {
  Generation generation;
  std::string cause = {};  ///< for people
  CauseKind kind = CauseKind::unknown;
  std::string host = {};         ///< host of the node with the cause; empty: not known
  std::optional<int> rank = {};  ///< rank with the cause; nothing: not known
  double found = 0;              ///< when this agent found it, seconds since 1970
};

/// The ranks of another generation than the first are started.
struct GenerationBegan {
  Generation generation;
  std::string cause = {};  ///< for people
  int ranks = 0;
  std::vector<std::string> hosts = {};
};

/// Functions that report the events of a launch as they happen. One agent reports each event: the one whose proposal of
/// the next decision stands. It calls them on a thread of its own. They must not throw.
struct AgentEvents {
  std::function<void(const BrokenOff&)> broke_off = [](const BrokenOff&) {};
  std::function<void(const GenerationBegan&)> began = [](const GenerationBegan&) {};
};

/// Settings of an agent of a launch; the same on all nodes.
struct AgentSpec {
  std::vector<std::string> worker;    ///< command line of a rank
  std::vector<std::string> at_first;  ///< more arguments for the ranks, as long as `has_trained` returns false
  std::filesystem::path run_folder;   ///< seen by all nodes
  std::string launch_id;              ///< a new one for every launch
  int ranks = 1;                      ///< number of ranks on all nodes at the start
  int min_nodes = 1;                  ///< least number of nodes on which the run continues
  std::string interface = "auto";     ///< as comm.interface
  Milliseconds grace{2000};           ///< time that ranks have to end by themselves after another one was lost
  Milliseconds round_grace{6000};     ///< the same, at most, where they end a round without it; below Rules::end_limit
  Milliseconds exchange_timeout{60000};
  Options options;
  std::function<void()> connected = [] {};  ///< called when the agents know each other
  std::function<bool()> has_trained = [] { return true; };
  /// Returns true if this node may fail soon: then a spare takes its place. It is called often.
  std::function<bool()> is_at_risk = [] { return false; };
  /// Called on one node when the run ends and the node of srun, the first one, is lost: nobody else is left to tell
  /// Slurm. The argument is the exit code of the run.
  std::function<void(int)> without_supervisor = [](int) {};
  /// Called on one node, also on a thread of its own, when the launch is to stop or ends after the first node was lost
  /// and came back: Slurm may have ended what ran there, and with it the job. Must not throw.
  std::function<void()> after_first_came_back = [] {};
  AgentEvents events = {};
  /// For agents of other jobs: the record of the launch that this one joins. Otherwise the record that run_agent() is
  /// to write, without what the agents know only when they have met.
  LaunchRecord record = {};
};

/// How long a rank may be in one phase, as the job says.
StallLimits stall_limits_of(const Options& options);

/// The agent of this node, one rank of `world`: starts the ranks of its node, watches them, exchanges heartbeats with
/// the other agents, and starts the ranks again, on the nodes that are left, after one was lost. Returns the exit code
/// of the launch: ok, requeue (stopped), the ranks' code if a restart would not help, or peer_lost if there are too few
/// nodes. Throws SchedulerError, StorageError, ConfigError.
///
/// Without a world: the agent of a node of another job, which joins the launch of `spec.record`. A signal means then
/// that this node has to leave. It returns ok when the launch has ended, however it did, or when this node has left it
/// or was left out; else peer_lost, if no node of the launch itself has ever answered.
int run_agent(const AgentSpec& spec, world::World* world, SupervisorSignals& signals);

}  // namespace distdl::agent
