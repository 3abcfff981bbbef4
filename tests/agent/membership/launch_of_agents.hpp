// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <distdl/agent/membership/membership.hpp>

namespace distdl::agent {

inline Rules rules(std::size_t wanted, std::size_t min_nodes = 1) {
  Rules rules;
  rules.wanted = wanted;
  rules.min_nodes = min_nodes;
  return rules;
}

/// Agents whose datagrams arrive at once, whose ledger answers at once, and whose ranks do what a test says.
class LaunchOfAgents {
 public:
  struct Node {
    std::unique_ptr<Membership> membership;
    bool is_alive = true;
    bool ledger_refuses = false;
    bool ends_ranks = true;             ///< as soon as it is told to
    std::optional<Generation> running;  ///< ranks of this generation
    int starts = 0, stops = 0, ends = 0, proposals = 0;
    std::vector<Report> reports;
    std::optional<Finish> finish;
  };

  LaunchOfAgents(std::size_t nodes, const Rules& rules) : nodes_(nodes) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < nodes; ++i) names.push_back(fmt::format("n{}", i));
    for (std::size_t i = 0; i < nodes; ++i) nodes_[i].membership = std::make_unique<Membership>(id(i), names, rules);
  }

  /// A node of another job, which gets the next number.
  void join(const Rules& rules) {
    const std::size_t node = nodes_.size();
    std::vector<std::string> names;
    for (std::size_t i = 0; i <= node; ++i) names.push_back(fmt::format("n{}", i));
    nodes_.emplace_back().membership = std::make_unique<Membership>(id(node), names, rules);
    agent(node).decided(ledger_.rbegin()->second);
  }

  static NodeId id(std::size_t node) { return NodeId(static_cast<std::uint32_t>(node)); }
  static std::vector<NodeId> ids(std::initializer_list<std::size_t> nodes) {
    std::vector<NodeId> all;
    for (std::size_t node : nodes) all.push_back(id(node));
    return all;
  }

  Node& operator[](std::size_t node) { return nodes_[node]; }
  Membership& agent(std::size_t node) { return *nodes_[node].membership; }
  const Status& status(std::size_t node) { return agent(node).status(); }
  const Decision& decision(std::uint32_t generation) const { return ledger_.at(Generation(generation)); }
  bool has(std::uint32_t generation) const { return ledger_.contains(Generation(generation)); }
  /// Of this generation, by all agents.
  std::vector<Report> reports(std::uint32_t generation) const {
    std::vector<Report> all;
    for (const Node& node : nodes_)
      for (const Report& report : node.reports)
        if (report.decision.generation == Generation(generation)) all.push_back(report);
    return all;
  }
  /// Of the newest decision.
  std::uint32_t generation() const { return ledger_.empty() ? 0 : ledger_.rbegin()->first.value; }
  void write(const Decision& decision) { ledger_.emplace(decision.generation, decision); }

  void cut(std::size_t from, std::size_t to) { cuts_.insert({from, to}); }
  void isolate(std::size_t node) {
    for (std::size_t other = 0; other < nodes_.size(); ++other) {
      cut(node, other);
      cut(other, node);
    }
  }
  void heal() { cuts_.clear(); }
  /// The node's agent and ranks are gone.
  void lose(std::size_t node) { nodes_[node].is_alive = false; }
  void end_ranks(std::size_t node, int code) {
    nodes_[node].running.reset();
    agent(node).ranks_ended(code, fmt::format("code {}", code));
  }
  void end_all_ranks(int code) {
    for (std::size_t node = 0; node < nodes_.size(); ++node)
      if (nodes_[node].running && nodes_[node].is_alive) end_ranks(node, code);
  }

  void run(Milliseconds time) {
    for (const auto end = now_ + time; now_ < end;) step();
  }
  /// Until `done`, or for two minutes. Returns how long it took.
  Milliseconds run_until(const std::function<bool()>& done) {
    const auto begin = now_;
    while (!done() && now_ - begin < std::chrono::minutes(2)) step();
    return std::chrono::duration_cast<Milliseconds>(now_ - begin);
  }
  Milliseconds run_until_generation(std::uint32_t generation) {
    return run_until([&] { return has(generation); });
  }
  /// Waits for the first generation, and until all know it.
  void begin() {
    run_until_generation(1);
    run(Milliseconds(1000));
  }

 private:
  void step() {
    now_ += Milliseconds(100);
    for (std::size_t node = 0; node < nodes_.size(); ++node)
      if (nodes_[node].is_alive && !nodes_[node].finish)
        for (const Action& action : agent(node).advance(now_))
          std::visit([&](const auto& one) { perform(node, one); }, action);
  }
  void perform(std::size_t node, const StartRanks& action) {
    ++nodes_[node].starts;
    nodes_[node].running = action.decision.generation;
  }
  void perform(std::size_t node, const StopRanks&) { ++nodes_[node].stops; }
  void perform(std::size_t node, const EndRanks&) {
    ++nodes_[node].ends;
    if (nodes_[node].ends_ranks) end_ranks(node, kPeerLost);
  }
  void perform(std::size_t node, const Propose& action) {
    ++nodes_[node].proposals;
    if (nodes_[node].ledger_refuses) return agent(node).unanswered(action.decision.generation);
    write(action.decision);
    agent(node).decided(ledger_.at(action.decision.generation));
  }
  void perform(std::size_t node, const Read& action) {
    if (has(action.generation.value) && !nodes_[node].ledger_refuses)
      agent(node).decided(ledger_.at(action.generation));
    else
      agent(node).unanswered(action.generation);
  }
  void perform(std::size_t node, const Send&) {
    for (std::size_t to = 0; to < nodes_.size(); ++to)
      if (to != node && nodes_[to].is_alive && status(node).hears.size() > to && !cuts_.contains({node, to}))
        agent(to).receive(status(node));
  }
  void perform(std::size_t node, const Report& action) { nodes_[node].reports.push_back(action); }
  void perform(std::size_t node, const Finish& action) { nodes_[node].finish = action; }

  std::vector<Node> nodes_;
  std::map<Generation, Decision> ledger_;
  std::set<std::pair<std::size_t, std::size_t>> cuts_;
  Clock::time_point now_{std::chrono::seconds(1000)};
};

}  // namespace distdl::agent
