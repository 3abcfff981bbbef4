// SPDX-License-Identifier: Apache-2.0
#include "tests/agent/simulation/simulator.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

namespace distdl::agent::simulation {
namespace {
using namespace std::chrono_literals;

constexpr Milliseconds kTick{100};
/// Of all the rest of a run after its last fault.
constexpr std::chrono::seconds kPatience{240};
constexpr int kKilled = 137, kCrash = 139;

std::vector<std::string> names(std::size_t nodes) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < nodes; ++i) all.push_back(fmt::format("n{}", i));
  return all;
}

NodeId id_of(std::size_t node) {
  return NodeId(static_cast<std::uint32_t>(node));
}

}  // namespace

Simulator::Simulator(const Schedule& schedule, const Safeguards& safeguards, bool traces)
    : schedule_(schedule),
      traces_(traces),
      random_(schedule.seed ^ 0x9E3779B97F4A7C15),
      folder_{safeguards, {}, {}},
      network_(queue_, random_, schedule.most_nodes(), schedule.disturbance),
      training_(
          queue_, random_, network_, folder_, schedule,
          {.ended =
               [this](std::size_t node, int code) {
                 trace(fmt::format("n{}: ranks ended with {}", node, code));
                 input(node, [=, this] { agents_[node].membership->ranks_ended(code, fmt::format("code {}", code)); });
               },
           .progressed = [this](std::size_t node, std::int64_t step) { agents_[node].membership->progress(step); },
           .broken = [this](const std::string& what) { broken(what); }}),
      agents_(schedule.most_nodes()),
      nodes_(schedule.nodes) {
  for (std::size_t node = 0; node < schedule.nodes; ++node) {
    agents_[node].membership = std::make_unique<Membership>(id_of(node), names(schedule.nodes), schedule.rules);
    queue_.after(random_.between(0ms, 1500ms), [this, node] { tick(node); });
  }
  schedule_faults();
  schedule_joining();
}

Outcome Simulator::run() {
  while (!is_over()) {
    queue_.run_next();
    ++outcome_.events;
    if (queue_.now() - began_ > schedule_.faults_end + kPatience) {
      broken("the launch does not end");
      break;
    }
    if (outcome_.broken.size() > 5) return outcome_;
  }
  check_end();
  return outcome_;
}

bool Simulator::is_over() const {
  return std::ranges::none_of(agents_, [](const Agent& agent) { return agent.is_running(); });
}

void Simulator::broken(const std::string& what) {
  const double time = std::chrono::duration<double>(queue_.now() - began_).count();
  outcome_.broken.push_back(fmt::format("{:.3f} s: {}", time, what));
  trace("BROKEN: " + what);
}

void Simulator::trace(const std::string& what) const {
  if (traces_) fmt::print("{:8.3f} {}\n", std::chrono::duration<double>(queue_.now() - began_).count(), what);
}

// Agents.

void Simulator::tick(std::size_t node) {
  Agent& agent = agents_[node];
  if (!agent.is_running()) return;
  if (agent.freezes == 0) advance(node);
  queue_.after(kTick + random_.between(-10ms, 30ms), [this, node] { tick(node); });
}

void Simulator::input(std::size_t node, std::function<void()> what) {
  Agent& agent = agents_[node];
  if (!agent.is_running()) return;
  if (agent.freezes > 0)
    agent.inputs.push_back(std::move(what));
  else
    queue_.after(random_.between(1ms, 50ms), [this, node, what = std::move(what)] {
      if (!agents_[node].is_running()) return;
      what();
      advance(node);
    });
}

void Simulator::thaw(std::size_t node) {
  Agent& agent = agents_[node];
  if (--agent.freezes > 0 || !agent.is_running()) return;
  for (const auto& status : std::exchange(agent.datagrams, {})) agent.membership->receive(*status);
  advance(node);
  for (auto& what : std::exchange(agent.inputs, {})) input(node, std::move(what));
}

void Simulator::advance(std::size_t node) {
  Agent& agent = agents_[node];
  if (!agent.is_running() || agent.freezes > 0) return;
  for (const Action& action : agent.membership->advance(queue_.now()))
    std::visit([&](const auto& one) { perform(node, one); }, action);
  check_agent(node);
}

void Simulator::perform(std::size_t node, const StartRanks& action) {
  trace(fmt::format("n{}: start ranks of generation {}", node, action.decision.generation));
  if (training_.runs(node)) broken(fmt::format("n{} starts ranks while others run", node));
  note_start();
  agents_[node].was_told_to_end = false;
  training_.start(node, action.decision);
}

void Simulator::perform(std::size_t node, const StopRanks&) {
  trace(fmt::format("n{}: stop ranks", node));
  queue_.after(random_.between(0ms, 50ms), [this, node, id = training_.id(node)] {
    if (training_.id(node) == id) training_.stop(node);
  });
}

void Simulator::perform(std::size_t node, const EndRanks&) {
  trace(fmt::format("n{}: end ranks; {}", node, agents_[node].membership->status().fault));
  agents_[node].was_told_to_end = true;
  const auto grace = agents_[node].ends_slowly ? random_.between(5s, 20s) : random_.between(20ms, 1500ms);
  queue_.after(grace, [this, node, id = training_.id(node)] {
    if (agents_[node].is_running() && id != 0) training_.end(node, static_cast<int>(ExitCode::peer_lost), id);
  });
}

void Simulator::perform(std::size_t node, const Propose& action) {
  const Decision& decision = action.decision;
  trace(fmt::format("n{}: propose generation {} of {} members{}: {}", node, decision.generation,
                    decision.members.size(), decision.end ? fmt::format(", end {}", *decision.end) : "",
                    decision.cause));
  check_proposal(node, decision);
  ask_ledger(node, decision.generation, &decision);
}

void Simulator::perform(std::size_t node, const Read& action) {
  ask_ledger(node, action.generation, nullptr);
}

void Simulator::perform(std::size_t node, const Report& action) {
  const Generation generation = action.decision.generation;
  const auto found = folder_.ledger.find(generation);
  if (found == folder_.ledger.end() || found->second != action.decision)
    broken(fmt::format("n{} reports a generation {} that was not decided so", node, generation));
  if (!reported_.insert(generation).second)
    broken(fmt::format("n{} reports generation {} once more", node, generation));
}

void Simulator::ask_ledger(std::size_t node, Generation generation, const Decision* proposal) {
  Agent& agent = agents_[node];
  Duration wait = random_.between(1ms, random_.chance(0.1) ? 1000ms : 60ms);
  if (agent.ledger_back && *agent.ledger_back > queue_.now()) {
    if (!agent.ledger_hangs) return input(node, [=, this] { agents_[node].membership->unanswered(generation); });
    wait += *agent.ledger_back - queue_.now();
  }
  const auto mine = proposal ? std::make_shared<Decision>(*proposal) : nullptr;
  queue_.after(wait, [=, this] {
    if (agents_[node].crashed && random_.chance(0.5)) return;
    if (mine) folder_.create(*mine);
    const auto found = folder_.ledger.find(generation);
    if (found == folder_.ledger.end())
      return input(node, [=, this] { agents_[node].membership->unanswered(generation); });
    if (found->second.end && !ended_at_) ended_at_ = queue_.now();
    input(node, [this, node, decision = found->second] { agents_[node].membership->decided(decision); });
  });
}

void Simulator::perform(std::size_t node, const Send&) {
  const auto status = std::make_shared<const Status>(agents_[node].membership->status());
  for (std::size_t to = 0; to < agents_.size(); ++to) {
    if (to == node || !agents_[to].is_running() || !has_address(node, to)) continue;
    network_.send(node, to, [this, to, status] {
      Agent& agent = agents_[to];
      if (agent.freezes > 0 && random_.chance(0.7)) return;  // no room in the socket
      if (agent.freezes > 0)
        agent.datagrams.push_back(status);
      else if (agent.is_running())
        agent.membership->receive(*status);
    });
  }
}

void Simulator::perform(std::size_t node, const Finish& action) {
  trace(fmt::format("n{}: finish with {}: {}", node, action.code, action.cause));
  Agent& agent = agents_[node];
  agent.finish = action;
  if (training_.runs(node) && action.decided) broken(fmt::format("n{} finishes while its ranks run", node));
  training_.end(node, kKilled);
}

// Nodes of other jobs.

void Simulator::schedule_joining() {
  for (const Joining& joining : schedule_.joining) queue_.after(joining.at, [this, &joining] { join(joining); });
}

/// Its number is the next one that is free, by the ledger.
void Simulator::join(const Joining& joining) {
  if (folder_.ledger.empty()) return queue_.after(1s, [this, &joining] { join(joining); });
  const Decision& newest = folder_.ledger.rbegin()->second;
  if (newest.end) return;
  const std::size_t node = nodes_++;
  trace(fmt::format("n{} joins in generation {}", node, newest.generation));
  agents_[node].membership = std::make_unique<Membership>(id_of(node), names(nodes_), schedule_.rules);
  agents_[node].membership->decided(newest);
  agents_[node].is_misfit = joining.is_misfit;
  if (joining.is_misfit) training_.spoil(node, kConfig, joining.fails_late);
  queue_.after(random_.between(0ms, 1500ms), [this, node] { tick(node); });
  if (joining.leaves) queue_.after(*joining.leaves - joining.at, [this, node] { leave(node); });
}

void Simulator::leave(std::size_t node) {
  if (!agents_[node].is_running()) return;
  trace(fmt::format("n{} is told to leave", node));
  agents_[node].told_to_leave = queue_.now();
  input(node, [this, node] { agents_[node].membership->leave(); });
}

/// Those that began the launch know each other; who joins knows all before it. The others learn its address from the
/// ledger, once they know of it.
bool Simulator::has_address(std::size_t node, std::size_t of) {
  if (of < schedule_.nodes || of < node) return true;
  Agent& agent = agents_[node];
  if (agent.membership->status().hears.size() <= of) return false;
  const Time asked = std::max(queue_.now(), agent.ledger_back.value_or(queue_.now()));
  const auto [address, is_new] = agent.addresses.try_emplace(of, asked + random_.between(1ms, 1000ms));
  return !is_new && queue_.now() >= address->second;
}

// Faults.

void Simulator::schedule_faults() {
  for (const Fault& fault : schedule_.faults)
    queue_.after(fault.at, [this, &fault] {
      trace("fault: " + describe(fault));
      if (!fault_at_ && fault.kind != FaultKind::agent_starved) fault_at_ = queue_.now();
      begin(fault);
      queue_.after(fault.duration, [this, &fault] {
        trace("healed: " + describe(fault));
        end(fault);
      });
    });
}

/// Calls `act` for each direction that the fault cuts.
void Simulator::for_links_of(const Fault& fault, const std::function<void(std::size_t, std::size_t)>& act) {
  const auto is_inside = [&](std::size_t node) {
    return fault.kind == FaultKind::partition ? (fault.part >> node & 1) != 0 : node == fault.node;
  };
  for (std::size_t from = 0; from < agents_.size(); ++from)
    for (std::size_t to = 0; to < agents_.size(); ++to) {
      const bool is_pair = is_inside(from) && to == fault.other && from != to;
      const bool is_pair_back = is_inside(to) && from == fault.other && from != to;
      const bool is_cut = fault.kind == FaultKind::one_way_cut ? is_pair
                          : fault.kind == FaultKind::link_cut  ? is_pair || is_pair_back
                                                               : is_inside(from) != is_inside(to);
      if (is_cut) act(from, to);
    }
}

void Simulator::begin(const Fault& fault) {
  const std::size_t node = fault.node;
  Agent& agent = agents_[node];
  switch (fault.kind) {
    case FaultKind::rank_crash:
      return crash_rank(node, fault.code, fmt::format("code {}", fault.code), 20ms);
    case FaultKind::rank_freeze:
      training_.freeze_rank(node);
      return crash_rank(node, kKilled, "frozen", 3s);
    case FaultKind::node_freeze:
      training_.freeze(node);
      return freeze(node);
    case FaultKind::agent_starved:
      return freeze(node);
    case FaultKind::node_crash:
      crash(node);
      return training_.end(node, kKilled);
    case FaultKind::agent_crash:
      return crash(node);
    case FaultKind::ledger_outage:
      agent.ledger_back = queue_.now() + fault.duration;
      agent.ledger_hangs = fault.hangs;
      return;
    case FaultKind::bad_node:
      return training_.spoil(node, kCrash);
    case FaultKind::slow_end:
      agent.ends_slowly = true;
      return;
    case FaultKind::stop:
      if (agent.is_running() && !stopped_at_) stopped_at_ = queue_.now();
      return input(node, [this, node] { agents_[node].membership->stop(); });
    default:
      return for_links_of(fault, [this](std::size_t from, std::size_t to) { network_.cut(from, to); });
  }
}

void Simulator::end(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::node_freeze:
      training_.thaw(fault.node);
      return thaw(fault.node);
    case FaultKind::agent_starved:
      return thaw(fault.node);
    case FaultKind::agent_crash:
      return training_.end(fault.node, kKilled);
    case FaultKind::slow_end:
      agents_[fault.node].ends_slowly = false;
      return;
    case FaultKind::isolation:
    case FaultKind::link_cut:
    case FaultKind::one_way_cut:
    case FaultKind::partition:
      return for_links_of(fault, [this](std::size_t from, std::size_t to) { network_.heal(from, to); });
    default:
      return;
  }
}

void Simulator::crash(std::size_t node) {
  Agent& agent = agents_[node];
  if (!agent.is_running()) return;
  agent.crashed = true;
  agent.crashed_at = queue_.now();
}

/// The rank ends now, or is killed by its agent after `unnoticed`.
void Simulator::crash_rank(std::size_t node, int code, const std::string& cause, Duration unnoticed) {
  queue_.after(unnoticed, [=, this, id = training_.id(node)] {
    Agent& agent = agents_[node];
    if (id == 0 || training_.id(node) != id || !agent.is_running()) return;
    if (agent.freezes > 0) return crash_rank(node, code, cause, 1s);
    if (code != 0 && random_.chance(0.5)) agent.membership->ranks_failed(code, cause);
    if (code == static_cast<int>(ExitCode::corruption)) wrong_.emplace(id_of(node), training_.generation(node));
    training_.end(node, code, id);
  });
}

}  // namespace distdl::agent::simulation
