// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/agent/simulation/event_queue.hpp"
#include "tests/agent/simulation/network.hpp"
#include "tests/agent/simulation/run_folder.hpp"
#include "tests/agent/simulation/schedule.hpp"
#include "tests/agent/simulation/training.hpp"
#include <distdl/agent/membership/membership.hpp>

namespace distdl::agent::simulation {

/// How one schedule went.
struct Outcome {
  std::vector<std::string> broken;  ///< promises, with the time
  std::optional<int> end;           ///< the code in the ledger
  std::uint32_t generations = 0;
  std::optional<Duration> recovery;    ///< from the first fault to the next start of ranks
  bool has_grown = false;              ///< a generation has more nodes than the one before
  std::optional<std::string> gave_up;  ///< why an agent ended without a decision
  std::size_t events = 0;
};

/// Agents, ranks, network and run folder of one launch, in simulated time.
class Simulator {
 public:
  Simulator(const Schedule& schedule, const Safeguards& safeguards, bool traces = false);
  Outcome run();

 private:
  struct Agent {
    std::unique_ptr<Membership> membership;  ///< none: it has not joined yet
    bool crashed = false;
    std::optional<Time> crashed_at, ledger_back;
    int freezes = 0;
    bool ledger_hangs = false, ends_slowly = false;
    std::optional<Finish> finish;
    bool was_told_to_end = false;               ///< its ranks
    std::vector<std::function<void()>> inputs;  ///< that came while it did not run
    std::vector<std::shared_ptr<const Status>> datagrams;
    std::optional<Time> told_to_leave;  ///< also if it has joined and is out
    bool is_misfit = false;
    std::map<std::size_t, Time> addresses;  ///< of nodes that have joined: when this one has them
    bool is_running() const { return membership && !crashed && !finish; }
  };

  void schedule_faults();
  void schedule_joining();
  void join(const Joining& joining);
  void leave(std::size_t node);
  bool has_address(std::size_t node, std::size_t of);
  void begin(const Fault& fault);
  void end(const Fault& fault);
  void crash(std::size_t node);
  void freeze(std::size_t node) { ++agents_[node].freezes; }
  void thaw(std::size_t node);
  void for_links_of(const Fault& fault, const std::function<void(std::size_t, std::size_t)>& act);
  void crash_rank(std::size_t node, int code, const std::string& cause, Duration unnoticed);

  void tick(std::size_t node);
  void input(std::size_t node, std::function<void()> what);
  void advance(std::size_t node);
  void perform(std::size_t node, const StartRanks& action);
  void perform(std::size_t node, const StopRanks& action);
  void perform(std::size_t node, const EndRanks& action);
  void perform(std::size_t node, const Propose& action);
  void perform(std::size_t node, const Read& action);
  void perform(std::size_t node, const Report& action);
  void perform(std::size_t node, const Send& action);
  void perform(std::size_t node, const Finish& action);
  void ask_ledger(std::size_t node, Generation generation, const Decision* proposal);

  void note_start();
  void check_agent(std::size_t node);
  void check_proposal(std::size_t node, const Decision& decision);
  void check_decision(std::size_t node, const Decision& decision);
  void check_end();
  int expected_end() const;
  void check_single_fault();
  void check_regrowth();
  void check_wrong_nodes(const Decision& decision);
  void check_joined_nodes(const Decision& decision);
  void check_joining();
  void broken(const std::string& what);
  void trace(const std::string& what) const;
  bool is_over() const;

  const Schedule& schedule_;
  bool traces_;
  EventQueue queue_;
  Time began_ = queue_.now();
  Random random_;
  RunFolder folder_;
  Network network_;
  Training training_;
  std::vector<Agent> agents_;
  std::size_t nodes_;                    ///< so many are there, with those that have joined
  std::map<Generation, Decision> seen_;  ///< decisions as the agents have them
  std::map<NodeId, Generation> wrong_;   ///< nodes that an audit found wrong alone, and in which generation
  std::optional<Time> fault_at_, ended_at_, stopped_at_;
  std::set<Generation> reported_;
  Outcome outcome_;
};

/// The promises that the schedule of `seed` breaks; empty: none.
Outcome simulate(std::uint64_t seed, const Safeguards& safeguards = {}, bool traces = false);

}  // namespace distdl::agent::simulation
