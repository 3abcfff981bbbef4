// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <distdl/parallel/server/leases.hpp>
#include <distdl/parallel/server/messages.hpp>

namespace distdl::parallel::server {

/// The scheduler: leases microbatches to workers, and decides who holds each range. Its whole state comes from the
/// servers' inventories, at its start and after each loss of a server, so nothing is lost with it.
class Scheduler {
 public:
  /// The nodes that are there. `leadership` is greater than that of each scheduler before, from 1. `rules` must outlive
  /// it. Throws ConfigError for rules that make no run, and without servers.
  Scheduler(const Rules& rules, Leadership leadership, std::set<Node> servers, std::set<Node> workers);

  /// Throws CommError as check().
  void receive(Node from, const Message& message);
  void tick();  ///< repeats what has no answer, and counts the age of leases
  void lost(Node node);
  void server_joined(Node node);
  void worker_joined(Node node);
  Actions take() { return std::exchange(actions_, {}); }

  /// True if all ranges have their holders, and the partners their copies.
  bool is_settled() const;
  bool is_finished() const { return leases_ && leases_->is_finished(); }
  /// Number of steps of the run, as it stands.
  std::int64_t steps() const { return leases_ ? leases_->steps() : rules_.steps; }
  /// Microbatches that are done; nullptr before all servers have sent their inventories.
  const MicrobatchSet* done() const { return leases_ ? &leases_->done() : nullptr; }
  const std::vector<Holders>& holders() const { return holders_; }

 private:
  void handle(Node from, const Ask& ask);
  void handle(Node from, const End& end);
  void answer(Node from);
  void answer_all();
  void answer_waiting();
  void handle(Node from, const Inventory& inventory);
  void handle(Node from, const Holding& holding);
  template <class Other>
  void handle(Node /*from*/, const Other& /*for another role*/) {}

  void collect();
  void place();
  void begin_leases();
  void assign(int range);
  void send(Node to, Message message) { actions_.emplace_back(Send{to, std::move(message)}); }

  const Rules& rules_;
  Leadership leadership_;
  std::set<Node> servers_, workers_, silent_workers_;
  std::int64_t round_ = 0;
  std::map<Node, Inventory> inventories_;  ///< answers of this round
  bool collects_ = true;
  std::vector<Holders> holders_;  ///< per range; empty before the first round is complete
  std::vector<bool> assigned_;    ///< per range: the primary has confirmed the term, and the partner's copy
  Directory directory_;
  std::optional<Leases> leases_;
  std::map<Node, Ask> unanswered_;  ///< requests of workers for which no microbatch was left
  bool is_over_ = false, ends_soon_ = false;
  Actions actions_;
};

}  // namespace distdl::parallel::server
