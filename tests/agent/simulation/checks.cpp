// SPDX-License-Identifier: Apache-2.0
// What the simulator's agents have promised.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tests/agent/simulation/simulator.hpp"

namespace distdl::agent::simulation {
namespace {
using namespace std::chrono_literals;

/// After so long, everyone must have noticed that a node or a link is gone: dead, and a heartbeat that was late.
constexpr std::chrono::seconds kNoticed{10};
/// A node that is to leave has left: its ranks have saved.
constexpr std::chrono::seconds kLeft{25};
/// After the end was decided, each agent that reaches the ledger must know it.
constexpr std::chrono::seconds kKnown{20};

constexpr bool is_of_node(FaultKind kind) {
  return kind != FaultKind::rank_crash && kind != FaultKind::rank_freeze && kind != FaultKind::bad_node;
}

}  // namespace

void Simulator::note_start() {
  if (fault_at_ && !outcome_.recovery && queue_.now() > *fault_at_) outcome_.recovery = queue_.now() - *fault_at_;
}

void Simulator::check_agent(std::size_t node) {
  const Agent& agent = agents_[node];
  const Decision& decision = agent.membership->status().decision;
  if (training_.runs(node) && agent.is_running() && training_.generation(node) != decision.generation &&
      !agent.was_told_to_end)
    broken(fmt::format("n{} knows generation {} and lets ranks of {} run", node, decision.generation,
                       training_.generation(node)));
  if (decision.generation != Generation(0) && !seen_.contains(decision.generation)) check_decision(node, decision);
  if (const auto seen = seen_.find(decision.generation); seen != seen_.end() && seen->second != decision)
    broken(fmt::format("n{} has another decision of generation {} than others", node, decision.generation));
}

/// Of a decision that an agent has for the first time.
void Simulator::check_decision(std::size_t node, const Decision& decision) {
  seen_.emplace(decision.generation, decision);
  trace(fmt::format("n{}: knows generation {}", node, decision.generation));
  outcome_.generations = std::max(outcome_.generations, decision.generation.value);
  if (decision.end) return;
  if (const auto before = seen_.find(Generation(decision.generation.value - 1)); before != seen_.end())
    outcome_.has_grown |= decision.members.size() > before->second.members.size();
  if (decision.members.size() < schedule_.rules.min_nodes || decision.members.size() > schedule_.rules.wanted)
    broken(fmt::format("generation {} has {} members", decision.generation, decision.members.size()));
  check_wrong_nodes(decision);
  check_joined_nodes(decision);
  const auto& origin = decision.origin;
  const bool is_misfit = origin.node && agents_[origin.node->value].is_misfit;
  const bool may_change = !schedule_.joining.empty() && (origin == Origin{} || is_misfit);
  if (schedule_.kind == Kind::quiet && decision.generation > Generation(1) && !may_change)
    broken(fmt::format("a false alarm: {}", decision.cause));
}

/// In a storm others may lose the node before it can say so.
void Simulator::check_wrong_nodes(const Decision& decision) {
  for (const auto& [node, found_in] : wrong_) {
    const auto after = seen_.find(Generation(found_in.value + 1));
    const bool is_known = after != seen_.end() && contains(after->second.wrong, node);
    const bool must_be_known = schedule_.kind == Kind::single && decision.generation > found_in;
    if ((is_known || must_be_known) && (contains(decision.members, node) || contains(decision.spares, node)))
      broken(fmt::format("generation {} has {}, in which an audit found wrong bits", decision.generation, node));
  }
}

void Simulator::check_joined_nodes(const Decision& decision) {
  const auto own =
      std::ranges::count_if(decision.members, [&](NodeId member) { return member.value < schedule_.nodes; });
  if (own == 0) broken(fmt::format("generation {} has only nodes that joined", decision.generation));
  if (static_cast<std::size_t>(own) > schedule_.rules.own_wanted)
    broken(fmt::format("generation {} has {} of the launch's own nodes", decision.generation, own));
  for (NodeId node : decision.wrong) {
    auto& leaves = agents_[node.value].told_to_leave;
    if (node.value >= schedule_.nodes && !leaves) leaves = queue_.now();
  }
}

void Simulator::check_proposal(std::size_t node, const Decision& decision) {
  const Status& own = agents_[node].membership->status();
  if (decision.end) return;
  if (own.stop) broken(fmt::format("n{} proposes generation {} after a stop", node, decision.generation));
  for (NodeId a : decision.members) {
    const auto& crashed = agents_[a.value].crashed_at;
    if (crashed && queue_.now() - *crashed > kNoticed) broken(fmt::format("n{} proposes n{}, which is dead", node, a));
    const auto& leaves = agents_[a.value].told_to_leave;
    if (leaves && queue_.now() - *leaves > kNoticed) broken(fmt::format("n{} proposes n{}, which leaves", node, a));
    for (NodeId b : decision.members)
      if (a < b && network_.cut_for(a.value, b.value) > kNoticed)
        broken(fmt::format("n{} proposes n{} and n{}, which do not hear each other", node, a, b));
  }
}

void Simulator::check_end() {
  const bool is_decided = !folder_.ledger.empty() && folder_.ledger.rbegin()->second.end;
  if (is_decided) outcome_.end = folder_.ledger.rbegin()->second.end;
  for (std::size_t node = 0; node < agents_.size(); ++node) {
    const Agent& agent = agents_[node];
    if (!agent.finish) continue;
    if (agent.told_to_leave && !agent.finish->decided && agent.finish->code == 0) continue;
    if (!agent.finish->decided) outcome_.gave_up = agent.finish->cause;
    if (agent.finish->decided && agent.finish->code != outcome_.end)
      broken(fmt::format("n{} finishes with {}", node, agent.finish->code));
    const bool ledger_was_out = agent.ledger_back && ended_at_ && *agent.ledger_back > *ended_at_;
    if (!agent.finish->decided && ended_at_ && queue_.now() - *ended_at_ > kKnown && !ledger_was_out)
      broken(fmt::format("n{} does not learn of the end: {}", node, agent.finish->cause));
  }
  // Of a rank that ends with 0 too early, only the other ranks can tell.
  const bool lied = std::ranges::any_of(
      schedule_.faults, [](const Fault& fault) { return fault.kind == FaultKind::rank_crash && fault.code == 0; });
  if (outcome_.end == 0 && !training_.is_finished() && !lied)
    broken("the launch ends with 0 before the run is finished");
  if (schedule_.kind != Kind::storm && outcome_.end != expected_end())
    broken(fmt::format("the launch ends with {} instead of {}", outcome_.end.value_or(-1), expected_end()));
  if (schedule_.kind != Kind::storm && !schedule_.joining.empty()) return check_joining();
  if (schedule_.kind == Kind::single) check_single_fault();
}

/// Unless the schedule is a storm.
int Simulator::expected_end() const {
  if (schedule_.kind == Kind::quiet) return 0;
  const Fault& fault = schedule_.faults.front();
  if (fault.kind == FaultKind::stop) return static_cast<int>(ExitCode::requeue);
  const auto first = seen_.find(Generation(1));
  const bool is_config = fault.kind == FaultKind::rank_crash && fault.code == static_cast<int>(ExitCode::config);
  return is_config && first != seen_.end() && contains(first->second.members, NodeId(fault.node)) ? fault.code : 0;
}

void Simulator::check_single_fault() {
  const Fault& fault = schedule_.faults.front();
  if (fault.kind == FaultKind::stop) {
    if (queue_.now() - *fault_at_ > 12s) broken("the stop takes too long");
    return;
  }
  const auto first = seen_.find(Generation(1));
  if (first == seen_.end()) return broken("there was no generation");
  const auto& members = first->second.members;
  const bool is_link = fault.kind == FaultKind::link_cut || fault.kind == FaultKind::one_way_cut;
  const auto has = [&](std::uint32_t node) { return contains(members, NodeId(node)); };
  if (!has(fault.node) || (is_link && !has(fault.other))) {
    if (seen_.contains(Generation(2)) && !seen_.at(Generation(2)).end)
      broken(fmt::format("a fault of a spare ends a generation: {}", seen_.at(Generation(2)).cause));
    return;
  }
  const auto second = seen_.find(Generation(2));
  if (second == seen_.end() || second->second.end) return;  // the fault came too late
  const std::size_t spares = schedule_.nodes - members.size();
  const bool is_wrong = wrong_.contains(NodeId(fault.node));
  const bool costs_node = (is_of_node(fault.kind) || is_wrong) && spares == 0;
  if (members.size() > 2 && second->second.members.size() + (costs_node ? 1 : 0) < members.size())
    broken(fmt::format("{} of {} members are left after one fault", second->second.members.size(), members.size()));
  check_regrowth();
  const auto most = fault.kind == FaultKind::rank_crash ? 4s : 14s;
  if (fault.kind != FaultKind::bad_node && outcome_.recovery && *outcome_.recovery > most)
    broken(fmt::format("the recovery takes {:.2f} s", std::chrono::duration<double>(*outcome_.recovery).count()));
}

/// A node that was lost and is back must soon run ranks again, if the rules say so.
void Simulator::check_regrowth() {
  constexpr std::array kHealing{FaultKind::node_freeze, FaultKind::isolation, FaultKind::link_cut,
                                FaultKind::one_way_cut};
  const Fault& fault = schedule_.faults.front();
  if (!schedule_.rules.regrow_after || !ended_at_ || std::ranges::count(kHealing, fault.kind) == 0) return;
  const Time healed = began_ + fault.at + fault.duration;
  if (*ended_at_ - healed < *schedule_.rules.regrow_after + 12s) return;
  const auto last = std::ranges::find_if(seen_.rbegin(), seen_.rend(), [](const auto& one) { return !one.second.end; });
  if (last->second.members.size() < schedule_.rules.wanted)
    broken(fmt::format("{} of {} nodes take part to the end, although all are back", last->second.members.size(),
                       schedule_.rules.wanted));
}

/// The last generation has as many nodes as there are and as are wanted, if there was time for that.
void Simulator::check_joining() {
  Time last_change = began_ + schedule_.faults_end;
  std::size_t own = 0, joined = 0;
  for (std::size_t node = 0; node < agents_.size(); ++node) {
    const Agent& agent = agents_[node];
    (node < schedule_.nodes ? own : joined) += agent.membership && !agent.crashed && !agent.told_to_leave ? 1 : 0;
    const bool has_left = agent.finish && !agent.finish->decided;
    if (agent.told_to_leave && ended_at_ && *ended_at_ - *agent.told_to_leave > kLeft && !has_left)
      broken("a node that is to leave stays");
  }
  if (!schedule_.rules.regrow_after || !ended_at_) return;
  if (*ended_at_ - last_change < *schedule_.rules.regrow_after + kLeft) return;
  const auto there = std::min(own, schedule_.rules.own_wanted) + joined;
  const auto last = std::ranges::find_if(seen_.rbegin(), seen_.rend(), [](const auto& one) { return !one.second.end; });
  if (last == seen_.rend() || last->second.members.size() == std::min(there, schedule_.rules.wanted)) return;
  broken(fmt::format("{} nodes run ranks at the end, although {} are there and {} are wanted",
                     last->second.members.size(), there, schedule_.rules.wanted));
}

Outcome simulate(std::uint64_t seed, const Safeguards& safeguards, bool traces) {
  const Schedule schedule = make_schedule(seed);
  if (traces) fmt::print("{}\n", describe(schedule));
  return Simulator(schedule, safeguards, traces).run();
}

}  // namespace distdl::agent::simulation
