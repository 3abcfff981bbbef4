// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <distdl/agent/decision.hpp>
#include <distdl/agent/status.hpp>

// Messages and records of agents, as JSON. The readers take any bytes and return nothing for a text that no writer
// makes.
namespace distdl::agent {

/// Address of an agent, which it publishes before the agents know each other.
struct AgentAddress {
  std::string host;     ///< for people
  std::string address;  ///< Datagrams::address()
  std::string nonce;    ///< a share of the launch's secret
};

std::string to_text(const AgentAddress& agent);
std::optional<AgentAddress> address_from(const std::string& text);

std::string to_text(const Decision& decision);
std::optional<Decision> decision_from(const std::string& text);

std::string to_text(const Status& status);
std::optional<Status> status_from(const std::string& text);

}  // namespace distdl::agent
