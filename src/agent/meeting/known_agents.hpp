// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <distdl/agent/launch_record.hpp>
#include <distdl/agent/meeting/datagrams.hpp>
#include <distdl/agent/meeting/ledger_thread.hpp>
#include <distdl/agent/messages.hpp>
#include <distdl/base/clock.hpp>
#include <distdl/base/ids.hpp>

namespace distdl::agent {

/// The agents of a launch, as far as this one knows them: those that began it, and those of other jobs that join it, by
/// their records in the ledger.
class KnownAgents {
 public:
  /// `agents`: in the order of their nodes. `datagrams` and `ledger` must outlive this object.
  KnownAgents(std::vector<AgentAddress> agents, Datagrams& datagrams, LedgerThread& ledger);

  std::size_t size() const { return agents_.size(); }
  /// "node 3", if its record was not read yet.
  const std::string& host(NodeId node) const { return agents_.at(node.value).host; }
  std::vector<std::string> hosts(const std::vector<NodeId>& nodes) const;
  /// Hosts of all agents, in the order of their nodes.
  std::vector<std::string> hosts() const;

  /// Writes `record`, completed with the agents and the secret, to the ledger: agents of other jobs can join then.
  void publish(LaunchRecord record, const std::string& secret);
  /// Takes note that the launch has `nodes` nodes. Asks the ledger for the records of those that are new.
  void look_for_joined(std::size_t nodes, Clock::time_point now);
  /// Takes the ledger's answer for a node. Returns its host if the node can be reached now.
  std::optional<std::string> meet(std::size_t node, const std::optional<std::string>& record, Clock::time_point now);

 private:
  std::vector<AgentAddress> agents_;
  std::map<std::size_t, std::optional<Clock::time_point>> unknown_;  ///< joined nodes: when to ask for their records
  Datagrams& datagrams_;
  LedgerThread& ledger_;
};

}  // namespace distdl::agent
