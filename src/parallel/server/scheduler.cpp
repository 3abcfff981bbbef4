// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/placement.hpp>
#include <distdl/parallel/server/scheduler.hpp>

namespace distdl::parallel::server {

Scheduler::Scheduler(const Rules& rules, Leadership leadership, std::set<Node> servers, std::set<Node> workers)
    : rules_(rules),
      leadership_(leadership),
      servers_(std::move(servers)),
      workers_(std::move(workers)),
      silent_workers_(workers_) {
  check(rules);
  require(!servers_.empty(), "a parameter server without servers: at least one is expected");
  collect();
  for (const Node worker : workers_) send(worker, Lead{leadership_, round_});
}

void Scheduler::receive(Node from, const Message& message) {
  check(rules_, message);
  std::visit([&](const auto& of_its_kind) { handle(from, of_its_kind); }, message);
}

/// Asks all servers what they have. An answer to an earlier question may be out of date, so the round has a number.
void Scheduler::collect() {
  collects_ = true;
  ++round_;
  inventories_.clear();
  for (const Node server : servers_) send(server, Lead{leadership_, round_});
}

void Scheduler::handle(Node from, const Inventory& inventory) {
  if (!collects_ || inventory.leadership != leadership_ || inventory.round != round_ || !servers_.contains(from))
    return;
  inventories_[from] = inventory;
  if (inventories_.size() == servers_.size()) place();
}

void Scheduler::place() {
  std::map<Node, int> load;
  for (const auto& [server, inventory] : inventories_) load[server] = static_cast<int>(inventory.ranges.size());
  std::vector<Holders> next;
  for (int range = 0; range < rules_.ranges; ++range) {
    const auto last = holders_.empty() ? std::nullopt : std::optional(holders_[static_cast<std::size_t>(range)]);
    const auto holders = next_holders(last, range, inventories_, load, rules_.has_partners);
    if (!holders) {
      is_over_ = true;
      actions_.emplace_back(Restart{range});
      return;
    }
    if (holders->partner && holders != last) ++load[*holders->partner];
    next.push_back(*holders);
  }
  const bool is_first = holders_.empty();
  assigned_.resize(next.size(), false);
  for (std::size_t range = 0; range < next.size(); ++range)
    if (is_first || next[range] != holders_[range]) assigned_[range] = false;
  holders_ = std::move(next);
  directory_ = {leadership_, directory_.edition + 1, {}};
  for (const Holders& holders : holders_) directory_.primaries.push_back(holders.primary);
  collects_ = false;
  if (is_first) begin_leases();
  answer_all();
  for (int range = 0; range < rules_.ranges; ++range) assign(range);
}

/// A microbatch is done when all ranges have it.
void Scheduler::begin_leases() {
  std::optional<MicrobatchSet> done;
  for (int range = 0; range < rules_.ranges; ++range) {
    const Inventory& inventory = inventories_.at(holders_[static_cast<std::size_t>(range)].primary);
    const auto held = std::ranges::find(inventory.ranges, range, &Inventory::Held::range);
    done = done ? intersection(*done, held->committed) : held->committed;
  }
  leases_.emplace(rules_, leadership_, *done);
  if (ends_soon_) leases_->end_soon();
}

void Scheduler::assign(int range) {
  const auto index = static_cast<std::size_t>(range);
  if (!assigned_[index]) send(holders_[index].primary, Assign{leadership_, range, holders_[index]});
}

void Scheduler::handle(Node from, const Holding& holding) {
  const auto index = static_cast<std::size_t>(holding.range);
  if (index >= holders_.size() || holders_[index].primary != from || holders_[index].term != holding.term) return;
  if (holding.is_copied) assigned_[index] = true;
}

void Scheduler::handle(Node from, const Ask& ask) {
  silent_workers_.erase(from);
  if (is_over_ || !workers_.contains(from)) return;
  unanswered_[from] = ask;
  if (!leases_) return;
  answer(from);
  if (ask.is_done) answer_waiting();
}

void Scheduler::handle(Node /*from*/, const End& /*end*/) {
  ends_soon_ = true;
  if (!leases_) return;
  leases_->end_soon();
  answer_waiting();
}

void Scheduler::answer_all() {
  for (auto next = unanswered_.begin(); next != unanswered_.end();) answer((next++)->first);
}

/// Answers the workers that were left without a microbatch, as done or returned microbatches may let them continue.
/// There may be thousands of them.
void Scheduler::answer_waiting() {
  for (auto next = unanswered_.begin(); next != unanswered_.end() && (leases_->has_free() || leases_->is_finished());)
    answer((next++)->first);
}

void Scheduler::answer(Node from) {
  const auto given = leases_->answer(from, unanswered_.at(from));
  if (!given && !leases_->is_finished()) return;
  unanswered_.erase(from);
  if (leases_->is_finished()) return send(from, Finish{leadership_, steps()});
  send(from, Lease{given->id, given->microbatch, directory_});
}

void Scheduler::tick() {
  if (is_over_) return;
  for (const Node worker : silent_workers_) send(worker, Lead{leadership_, round_});
  if (leases_) leases_->tick();
  if (leases_) answer_waiting();
  if (collects_) {
    for (const Node server : servers_)
      if (!inventories_.contains(server)) send(server, Lead{leadership_, round_});
  } else {
    for (int range = 0; range < rules_.ranges; ++range) assign(range);
  }
}

void Scheduler::lost(Node node) {
  if (is_over_) return;
  unanswered_.erase(node);
  workers_.erase(node);
  silent_workers_.erase(node);
  if (leases_) leases_->lost(node);
  if (servers_.erase(node) > 0) {
    if (!servers_.empty()) return collect();
    is_over_ = true;
    actions_.emplace_back(Restart{0});
  }
}

void Scheduler::server_joined(Node node) {
  if (!is_over_ && servers_.insert(node).second) collect();
}

void Scheduler::worker_joined(Node node) {
  if (is_over_ || !workers_.insert(node).second) return;
  silent_workers_.insert(node);
  send(node, Lead{leadership_, round_});
}

bool Scheduler::is_settled() const {
  return !is_over_ && !collects_ && std::ranges::all_of(assigned_, [](bool is) { return is; });
}

}  // namespace distdl::parallel::server
