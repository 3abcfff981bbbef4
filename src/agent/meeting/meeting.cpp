// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/agent/launch_record.hpp>
#include <distdl/agent/ledger.hpp>
#include <distdl/agent/meeting/meeting.hpp>
#include <distdl/agent/own_address.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/random.hpp>

namespace distdl::agent {
namespace {
constexpr std::size_t kNonceBytes = 32;

/// Who has all of these has taken part in the exchange.
std::string secret_of(const std::vector<AgentAddress>& agents) {
  std::string secret;
  for (const auto& agent : agents) secret += agent.nonce;
  return secret;
}

/// Before the agents meet: none makes the folder again when the launch has ended. An agent that cannot make it uses
/// that of the others.
void make_ledger(const AgentSpec& spec) try {
  Ledger(launch_folder(spec.run_folder, spec.launch_id)).make_folder();
} catch (const StorageError& error) {
  log(Severity::warning, "{}", error.what());
}

void connect(Meeting& meeting) {
  std::vector<std::string> addresses;
  addresses.reserve(meeting.agents.size());
  for (const auto& agent : meeting.agents) addresses.push_back(agent.address);
  meeting.datagrams.connect(addresses, meeting.secret);
}
}  // namespace

Meeting meet(const AgentSpec& spec, world::World& world) {
  check(spec.options);  // before a rank of `world` waits for the others
  require(spec.options.spares < world.size(), "run.spares is {}, but the job has {} nodes, one of which must run ranks",
          spec.options.spares, world.size());
  Meeting meeting{NodeId(static_cast<std::uint32_t>(world.rank().value)), Datagrams(own_address(spec.interface))};
  const AgentAddress own{host_name(), meeting.datagrams.address(), random_hex(kNonceBytes)};
  make_ledger(spec);
  for (const auto& text : world.all_gather_strings(to_text(own), spec.exchange_timeout)) {
    auto agent = address_from(text);
    require<SchedulerError>(agent.has_value(), "agent {} published \"{}\", which is no address of an agent",
                            meeting.agents.size(), text);
    meeting.agents.push_back(*std::move(agent));
  }
  meeting.of_launch = meeting.agents.size();
  meeting.secret = secret_of(meeting.agents);
  connect(meeting);
  return meeting;
}

Meeting join(const AgentSpec& spec) {
  check(spec.options);
  const LaunchRecord& record = spec.record;
  const std::string& first = record.agents.front().address;  // "10.77.0.1 41234"
  Meeting meeting{NodeId(0), Datagrams(own_address(spec.interface, first.substr(0, first.find(' ')))), record.agents,
                  record.agents.size(), record.secret};
  const Ledger ledger(launch_folder(spec.run_folder, spec.launch_id));
  const AgentAddress own{host_name(), meeting.datagrams.address(), ""};
  try {
    meeting.self = join_nodes(ledger, meeting.of_launch, own);
    for (auto& agent : joined_nodes(ledger, meeting.of_launch)) meeting.agents.push_back(std::move(agent));
    meeting.newest = newest_decision(ledger);
  } catch (const StorageError&) {
    if (ledger.exists()) throw;
  }
  require<SchedulerError>(meeting.newest.has_value(), "launch {} has ended meanwhile", record.id);
  meeting.agents.resize(std::max<std::size_t>(meeting.agents.size(), meeting.self.value + 1));
  connect(meeting);
  return meeting;
}

}  // namespace distdl::agent
