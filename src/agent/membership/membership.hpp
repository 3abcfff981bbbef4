// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <distdl/agent/decision.hpp>
#include <distdl/agent/membership/next_decision.hpp>
#include <distdl/agent/membership/peers.hpp>
#include <distdl/agent/membership/rules.hpp>
#include <distdl/agent/status.hpp>
#include <distdl/base/clock.hpp>

namespace distdl::agent {

/// Start the ranks of this node for `decision`. No ranks of this node run then. Answer: ranks_ended().
struct StartRanks {
  Decision decision;
};
/// Ask the ranks to save and stop. They end with ExitCode::requeue.
struct StopRanks {};
/// End the ranks, and kill them after a grace period. Answer: ranks_ended().
struct EndRanks {};
/// Create the ledger's record of `decision.generation`, unless there is one. Answer: decided() or unanswered().
struct Propose {
  Decision decision;
};
/// Read the ledger's record of `generation`. Answer: decided() or unanswered().
struct Read {
  Generation generation;
};
/// Record `decision`. Only its proposer does so, as soon as the ledger confirms the proposal.
struct Report {
  Decision decision;
  bool broke_off = false;  ///< the generation before ended by a fault
};
/// Send status() to all other nodes.
struct Send {};
/// End this agent. The ledger holds the same end if `decided`; else this agent alone gives up.
struct Finish {
  int code = 0;
  std::string cause;
  bool decided = true;
};
using Action = std::variant<StartRanks, StopRanks, EndRanks, Propose, Read, Report, Send, Finish>;

/// The agents of a launch agree on generations of ranks: one object for each node. README.md tells how. It has no
/// threads, sockets, files or clocks of its own: what happened is told to it, and advance() answers with what to do.
///
///   while (auto status = datagrams.receive()) membership.receive(*status);  // all that is there, and other inputs
///   for (const Action& action : membership.advance(Clock::now())) perform(action);  // then, and at least every 100 ms
class Membership {
 public:
  /// `names` of all nodes, for people; their places are the numbers of the nodes. More nodes may join later: each takes
  /// the next number, has an object of its own, which knows all nodes so far, and begins with decided() of the newest
  /// decision. Throws InternalError for rules that make no sense.
  Membership(NodeId self, std::vector<std::string> names, const Rules& rules);
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // Inputs: events that happened.
  /// Takes a status of another node.
  void receive(const Status& status) { peers_.receive(status); }
  /// The ledger holds this decision, whoever proposed it.
  void decided(const Decision& decision);
  /// The ledger has no record of `generation`, or could not be asked.
  void unanswered(Generation generation);
  /// A rank of this node failed with `code`, and others still run. `cause`: for people, "rank 3 was killed by SIGKILL".
  void ranks_failed(int code, const std::string& cause, Origin origin = {});
  /// All ranks of this node have ended; `code`: the worst of those that the agent did not kill, peer_lost if it killed
  /// all.
  void ranks_ended(int code, const std::string& cause, Origin origin = {});
  /// Takes the step that the ranks of this node have reached; it counts as progress of the run if it is further than
  /// any number before. The first step of a generation is that at which they begin, from a checkpoint or anew. -1: they
  /// have not begun.
  void progress(std::int64_t step);
  /// The launch is to save and stop.
  void stop() { peers_.own().stop = true; }

  /// This node, which has joined the launch, is about to go: its ranks, if it has any, save and stop with the others,
  /// which then go on without it. It finishes as soon as that is so.
  void leave() { peers_.own().leave = true; }
  /// This node cannot take part any more, whatever the others decide: it finishes alone.
  void give_up(int code, const std::string& cause);
  /// Sets the name of a node that has joined the launch.
  void name(NodeId node, const std::string& name);

  /// `wanted`: this node may fail soon. A spare takes its place, if there is one: the ranks save, stop, and go on
  /// there.
  void drain(bool wanted) { peers_.own().drain = wanted; }

  /// Returns the actions to perform now, in this order.
  std::vector<Action> advance(Clock::time_point now);

  /// The status to send. It has the decision on the newest generation that this node knows, and its `hears` has all
  /// nodes that it knows.
  const Status& status() const { return peers_.own(); }

 private:
  const Decision& decision() const { return status().decision; }
  Generation generation() const { return decision().generation; }
  bool is_member() const { return contains(decision().members, self_); }
  bool has_ranks() const { return status().phase == Phase::running || status().phase == Phase::ending; }

  void adopt_newest();
  void adopt(const Decision& decision);
  void report(const Decision& decision);
  void spread();
  void find_fault();
  bool is_lost(NodeId member) const;
  void note_code(int code, const std::string& cause, Origin origin);
  void run_ranks();
  void start_ranks();

  void decide();
  bool is_undecided() const;
  bool is_ready(NodeId node) const;
  bool can_run_ranks(NodeId node) const;
  bool is_awaited(NodeId node) const;
  bool awaits_others() const;
  std::vector<NodeId> nodes_for_ranks() const;
  std::vector<NodeId> possible_members() const;
  Evidence evidence() const;

  void consider_regrow();
  bool can_regrow() const;
  void consider_drain();
  void read_ledger();
  void end_launch();
  void consider_leaving();
  std::string name_of(NodeId node) const;
  void finish(int code, const std::string& cause, bool decided);
  void send();

  NodeId self_;
  std::vector<std::string> names_;
  Rules rules_;
  Peers peers_;
  Clock::time_point now_;
  std::vector<Action> actions_;   ///< actions of the present advance()
  std::optional<Finish> finish_;  ///< after it, nothing else is done

  std::optional<Decision> from_ledger_;  ///< to be adopted, if it is new
  Clock::time_point adopted_at_;
  Generation started_;             ///< generation of the ranks that were started last
  bool was_told_to_stop_ = false;  ///< the ranks that were started last

  std::optional<Clock::time_point> undecided_since_;
  std::vector<NodeId> connected_;  ///< the nodes that could run ranks, at the last look
  Clock::time_point connected_since_;
  std::optional<Generation> asked_;    ///< generation that the ledger was asked for; there is no answer yet
  bool proposed_after_fault_ = false;  ///< the last proposal
  Generation reported_;                ///< the last proposal that stood
  Clock::time_point next_question_;    ///< time before which the ledger is not asked
  std::optional<Clock::time_point> orphan_since_, regrow_since_, left_since_;

  Status sent_;
  Clock::time_point sent_at_;
};

}  // namespace distdl::agent
