// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <fmt/format.h>

#include <distdl/agent/meeting/known_agents.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>

namespace distdl::agent {
namespace {
/// Time after which the ledger is asked again for the record of a node that has joined.
constexpr Milliseconds kAskAgain{1000};
}  // namespace

KnownAgents::KnownAgents(std::vector<AgentAddress> agents, Datagrams& datagrams, LedgerThread& ledger)
    : agents_(std::move(agents)), datagrams_(datagrams), ledger_(ledger) {}

std::vector<std::string> KnownAgents::hosts(const std::vector<NodeId>& nodes) const {
  std::vector<std::string> hosts;
  hosts.reserve(nodes.size());
  for (NodeId node : nodes) hosts.push_back(host(node));
  return hosts;
}

std::vector<std::string> KnownAgents::hosts() const {
  std::vector<std::string> hosts;
  hosts.reserve(agents_.size());
  for (const auto& agent : agents_) hosts.push_back(agent.host);
  return hosts;
}

void KnownAgents::publish(LaunchRecord record, const std::string& secret) {
  record.agents = agents_;
  for (auto& agent : record.agents) agent.nonce.clear();
  record.secret = secret;
  ledger_.create(kLaunchRecord, to_text(record));
}

void KnownAgents::look_for_joined(std::size_t nodes, Clock::time_point now) {
  for (std::size_t node = agents_.size(); node < nodes; ++node) {
    agents_.push_back({fmt::format("node {}", node), "", ""});
    unknown_[node] = now;
  }
  for (auto& [node, ask_at] : unknown_) {
    if (!ask_at || now < *ask_at) continue;
    ledger_.read(record_of_node(node));
    ask_at.reset();
  }
}

std::optional<std::string> KnownAgents::meet(std::size_t node, const std::optional<std::string>& record,
                                             Clock::time_point now) try {
  const auto agent = record ? address_from(*record) : std::nullopt;
  unknown_[node] = now + kAskAgain;
  if (!agent) return std::nullopt;
  datagrams_.add(node, agent->address);
  agents_.at(node) = *agent;
  unknown_.erase(node);
  log(Severity::info, "{} of another job has joined the run, as node {}", agent->host, node);
  return agent->host;
} catch (const SchedulerError& error) {
  log(Severity::warning, "{}", error.what());
  return std::nullopt;
}

}  // namespace distdl::agent
