// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <distdl/agent/agent.hpp>
#include <distdl/agent/decision.hpp>
#include <distdl/agent/meeting/datagrams.hpp>
#include <distdl/agent/messages.hpp>

namespace distdl::agent {

/// How an agent meets the others.
struct Meeting {
  NodeId self;
  Datagrams datagrams;  ///< connected
  /// Agents in the order of their nodes; an agent that joins has those before it.
  std::vector<AgentAddress> agents = {};
  std::size_t of_launch = 0;            ///< number of agents that began the launch
  std::string secret = {};              ///< secret of all agents
  std::optional<Decision> newest = {};  ///< newest decision of the launch that this agent joins
};

/// All agents of a launch exchange their addresses, and shares of the secret, by `world`. Throws SchedulerError,
/// ConfigError.
Meeting meet(const AgentSpec& spec, world::World& world);
/// This agent joins the launch of `spec.record`, by the run folder. Throws SchedulerError, StorageError, ConfigError.
Meeting join(const AgentSpec& spec);

}  // namespace distdl::agent
