// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "tests/parallel/server/interleaving.hpp"
#include "tests/parallel/server/promises.hpp"
#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/placement.hpp>
#include <distdl/parallel/server/scheduler.hpp>
#include <distdl/parallel/server/server.hpp>
#include <distdl/parallel/server/worker.hpp>

namespace distdl::parallel::server::simulation {
namespace {

constexpr std::size_t kMostEvents = 60'000;
constexpr std::size_t kMostMessages = 300;  // under way; ticks wait then
constexpr std::size_t kFaultsWithin = 500;  // events
constexpr std::size_t kLatest = 1500;       // events, after which a message comes a second time

/// What travels beside a message.
struct Bytes {
  Content content;
  std::uint64_t gradient = 0;
  Storage storage;
};
struct Envelope {
  Node from, to;
  Message message;
  Bytes bytes;
};

class Simulation {
 public:
  Simulation(const Interleaving& interleaving, bool traces)
      : plan_(interleaving),
        rules_(interleaving.rules),
        traces_(traces),
        random_(interleaving.seed),
        promises_(interleaving.rules) {
    std::vector<Node> servers;
    for (int i = 0; i < plan_.servers; ++i) servers.push_back(new_node(next_server_));
    const auto placement = first_placement(rules_.ranges, servers);
    for (const Node server : servers) add_server(server, placement);
    for (int i = 0; i < plan_.workers; ++i) add_worker();
    draw_faults();
    lead();
  }

  Outcome run() {
    try {
      while (!is_over()) {
        if (++outcome_.events > kMostEvents) broken("no progress: not all microbatches are done");
        begin_faults();
        deliver_loss_news();
        if (!outcome_.has_restarted) next_event();
      }
      if (!outcome_.has_restarted) check_end();
    } catch (const Broken& broken) {
      outcome_.broken = fmt::format("event {}: {}", outcome_.events, broken.what);
    } catch (const std::exception& error) {
      outcome_.broken = error.what();
    }
    return outcome_;
  }

 private:
  struct ServerNode {
    std::unique_ptr<Server> machine;
    std::map<int, Storage> storage;
  };
  struct WorkerNode {
    std::unique_ptr<Worker> machine;
    std::map<std::tuple<int, Version, int>, Content> pieces;
    std::optional<Compute> computing;
    std::uint64_t gradient = 0;
  };
  enum class Fault { lose_worker, lose_server, lose_scheduler, freeze_worker, join_worker, join_server };
  struct LossNews {
    std::size_t at;
    Node to, lost;
  };

  std::size_t below(std::size_t bound) { return random_() % bound; }
  bool chance(double probability) { return static_cast<double>(random_() >> 11) * 0x1p-53 < probability; }
  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) const {
    if (traces_) std::printf("%6zu %s\n", outcome_.events, fmt::format(format, std::forward<Args>(args)...).c_str());
  }

  // --- the nodes

  static Node new_node(int& next) { return Node(next++); }
  Node begin_node(Node node) {
    nodes_.push_back(node);
    return node;
  }
  void add_server(Node node, const std::vector<Holders>& placement) {
    begin_node(node);
    ServerNode& server = servers_[node];
    server.machine = std::make_unique<Server>(rules_, node, placement);
    for (int range = 0; range < static_cast<int>(placement.size()); ++range) {
      const Holders& holders = placement[static_cast<std::size_t>(range)];
      if (holders.primary == node || holders.partner == node)
        server.storage[range].versions[Version(0)] = server.storage[range].kept[Version(0)] = Promises::first(range);
    }
  }
  Node add_worker() {
    const Node node = begin_node(new_node(next_worker_));
    workers_[node].machine = std::make_unique<Worker>(rules_);
    return node;
  }
  void lead() {
    std::set<Node> servers, workers;
    for (const auto& [server, it] : servers_)
      if (!lost_.contains(server)) servers.insert(server);
    for (const auto& [worker, it] : workers_)
      if (!lost_.contains(worker)) workers.insert(worker);
    if (servers.empty()) return restart(0);
    const Node node = current_ = begin_node(new_node(next_scheduler_));
    schedulers_[node] = std::make_unique<Scheduler>(rules_, Leadership(++leadership_), servers, workers);
    trace("scheduler {} begins", node);
    perform(node, schedulers_[node]->take(), {});
  }
  bool runs(Node node) const { return !crashed_.contains(node) && !frozen_.contains(node); }
  bool is_there(Node node) const { return runs(node) && !lost_.contains(node); }
  Scheduler& current() { return *schedulers_.at(current_); }

  // --- faults

  void draw_faults() {
    const auto add = [&](Fault fault, int count) {
      for (int i = 0; i < count; ++i) faults_.emplace_back(below(kFaultsWithin), fault);
    };
    add(Fault::lose_worker, plan_.lost_workers);
    add(Fault::lose_server, plan_.lost_servers);
    add(Fault::lose_scheduler, plan_.lost_schedulers);
    add(Fault::freeze_worker, plan_.frozen_workers);
    add(Fault::join_worker, plan_.joined_workers);
    add(Fault::join_server, plan_.joined_servers);
  }
  void begin_faults() {
    for (auto it = faults_.begin(); it != faults_.end();) {
      if (it->first <= outcome_.events && begin(it->second))
        it = faults_.erase(it);
      else
        ++it;
    }
    if (std::ranges::none_of(workers_, [&](const auto& worker) { return is_there(worker.first); })) join_worker();
  }
  template <class Nodes>
  std::optional<Node> one_of(const Nodes& nodes) {
    std::vector<Node> there;
    for (const auto& [node, it] : nodes)
      if (is_there(node)) there.push_back(node);
    if (there.empty()) return {};
    return there[below(there.size())];
  }
  /// False: not now.
  bool begin(Fault fault) {
    switch (fault) {
      case Fault::lose_worker:
        if (const auto node = one_of(workers_)) lose(*node);
        return true;
      case Fault::lose_server: {
        if (plan_.are_spaced) {
          if (!is_settled()) return false;
          if (std::ranges::count_if(servers_, [&](const auto& server) { return is_there(server.first); }) < 2)
            return true;
        }
        if (const auto node = one_of(servers_)) lose(*node);
        return true;
      }
      case Fault::lose_scheduler:
        if (is_there(current_)) lose(current_);
        return true;
      case Fault::freeze_worker:
        if (const auto node = one_of(workers_)) frozen_.insert(*node);
        return true;
      case Fault::join_worker:
        join_worker();
        return true;
      case Fault::join_server: {
        const Node node = new_node(next_server_);
        trace("server {} joins", node);
        add_server(node, {});
        if (runs(current_)) tell_current([&](Scheduler& scheduler) { scheduler.server_joined(node); });
        return true;
      }
    }
    return true;
  }
  void join_worker() {
    const Node node = add_worker();
    trace("worker {} joins", node);
    if (runs(current_)) tell_current([&](Scheduler& scheduler) { scheduler.worker_joined(node); });
  }
  bool is_settled() { return loss_news_.empty() && undeclared_ == 0 && is_there(current_) && current().is_settled(); }

  /// Crashed or cut off; later the others learn that it counts as lost.
  void lose(Node node) {
    if (!plan_.may_be_wrong || chance(0.5)) crashed_.insert(node);
    trace("{} is lost{}", node, crashed_.contains(node) ? "" : ", and runs on");
    if (servers_.contains(node)) check_kept_without(node);
    ++undeclared_;
    declared_at_.emplace_back(outcome_.events + below(150), node);
  }
  void deliver_loss_news() {
    for (auto it = declared_at_.begin(); it != declared_at_.end();) {
      if (it->first > outcome_.events) {
        ++it;
        continue;
      }
      const Node lost = it->second;
      it = declared_at_.erase(it);
      --undeclared_;
      lost_.insert(lost);
      if (servers_.contains(lost)) ++lost_servers_;
      for (const Node node : nodes_)
        if (node != lost && runs(node)) loss_news_.push_back({outcome_.events + below(100), node, lost});
      if (lost == current_) lead();
      if (outcome_.has_restarted) return;
    }
    for (std::size_t i = 0; i < loss_news_.size();) {
      const LossNews news = loss_news_[i];
      if (news.at > outcome_.events) {
        ++i;
        continue;
      }
      loss_news_.erase(loss_news_.begin() + static_cast<std::ptrdiff_t>(i));
      if (!runs(news.to)) continue;
      trace("{} learns that {} is lost", news.to, news.lost);
      tell(news.to, [&](auto& machine) {
        if constexpr (requires { machine.lost(news.lost); }) machine.lost(news.lost);
      });
      if (outcome_.has_restarted) return;
    }
  }

  // --- events

  template <class Act>
  void tell(Node node, const Act& act, const Bytes& bytes = {}) {
    const auto on = [&](auto& machine) {
      act(machine);
      perform(node, machine.take(), bytes);
    };
    if (const auto server = servers_.find(node); server != servers_.end())
      on(*server->second.machine);
    else if (const auto worker = workers_.find(node); worker != workers_.end())
      on(*worker->second.machine);
    else
      on(*schedulers_.at(node));
  }

  template <class Act>
  void tell_current(const Act& act) {
    act(current());
    perform(current_, current().take(), {});
  }

  void next_event() {
    while (!late_.empty() && late_.begin()->first <= outcome_.events)
      messages_.push_back(std::move(late_.extract(late_.begin()).mapped()));
    if (messages_.empty() || (messages_.size() < kMostMessages && chance(0.05))) {
      const Node node = nodes_[below(nodes_.size())];
      if (runs(node)) tell(node, [](auto& machine) { machine.tick(); });
      return;
    }
    if (chance(0.1)) return compute_one();
    deliver();
  }
  void compute_one() {
    std::vector<Node> busy;
    for (const auto& [node, worker] : workers_)
      if (worker.computing && runs(node)) busy.push_back(node);
    if (busy.empty()) return;
    const Node node = busy[below(busy.size())];
    const LeaseId lease = workers_[node].computing->lease;
    workers_[node].computing.reset();
    tell(node, [&](auto& machine) {
      if constexpr (requires { machine.computed(lease); }) machine.computed(lease);
    });
  }
  void deliver() {
    const std::size_t index = below(messages_.size());
    Envelope envelope;
    if (chance(plan_.repeat)) {
      envelope = messages_[index];
    } else {
      envelope = std::exchange(messages_[index], std::move(messages_.back()));
      messages_.pop_back();
    }
    if (plan_.repeat > 0 && chance(0.02)) late_.emplace(outcome_.events + below(kLatest), envelope);
    if (chance(plan_.drop) || !runs(envelope.to)) return;
    ++outcome_.messages;
    if (const auto* pulled = std::get_if<Pulled>(&envelope.message); pulled && pulled->version)
      workers_[envelope.to].pieces[{pulled->range, *pulled->version, pulled->piece}] = envelope.bytes.content;
    is_partner_ = std::holds_alternative<Replicate>(envelope.message);
    tell(
        envelope.to, [&](auto& machine) { machine.receive(envelope.from, envelope.message); }, envelope.bytes);
    if (const auto* assign = std::get_if<Assign>(&envelope.message); assign && servers_.contains(envelope.to))
      if (is_there(envelope.to))
        promises_.check_holder(envelope.to, assign->range, servers_[envelope.to].storage[assign->range]);
    if (std::holds_alternative<Ask>(envelope.message) && envelope.to == current_) check_done();
  }

  // --- actions

  void perform(Node node, const Actions& actions, const Bytes& bytes) {
    for (const Action& action : actions)
      std::visit([&](const auto& of_its_kind) { perform(node, of_its_kind, bytes); }, action);
  }
  void perform(Node node, const Send& action, const Bytes& /*bytes*/) {
    Envelope envelope{node, action.to, action.message, {}};
    if (const auto* pulled = std::get_if<Pulled>(&action.message)) {
      if (pulled->version) envelope.bytes.content = servers_[node].storage[pulled->range].versions.at(*pulled->version);
    } else if (std::holds_alternative<Push>(action.message)) {
      envelope.bytes.gradient = workers_[node].gradient;
    } else if (const auto* replicate = std::get_if<Replicate>(&action.message)) {
      envelope.bytes.gradient = servers_[node].storage[replicate->range].gradients.at(replicate->microbatch);
    } else if (const auto* copy = std::get_if<Copy>(&action.message)) {
      envelope.bytes.storage = part_of(servers_[node].storage[copy->range], copy->state);
    } else if (const auto* pushed = std::get_if<Pushed>(&action.message)) {
      promises_.acknowledge(pushed->range, pushed->microbatch);
    }
    messages_.push_back(std::move(envelope));
  }
  static Storage part_of(const Storage& storage, const RangeState& state) {
    Storage part;
    for (const Version version : state.versions) part.versions[version] = storage.versions.at(version);
    for (const auto& [microbatch, gradient] : storage.gradients)
      if (state.committed.contains(microbatch)) part.gradients[microbatch] = gradient;
    return part;
  }
  void perform(Node node, const Store& action, const Bytes& bytes) {
    servers_[node].storage[action.range].gradients[action.microbatch] = bytes.gradient;
  }
  void perform(Node node, const Adopt& action, const Bytes& bytes) {
    servers_[node].storage[action.range] = bytes.storage;
  }
  void perform(Node node, const Apply& action, const Bytes& /*bytes*/) {
    Storage& storage = servers_[node].storage[action.range];
    Content content = storage.versions.rbegin()->second;
    for (const Microbatch microbatch : action.microbatches) {
      if (content.microbatches & bit_of(microbatch))
        broken("microbatch {} counts twice in range {}", microbatch, action.range);
      const auto gradient = storage.gradients.find(microbatch);
      if (gradient == storage.gradients.end())
        broken("microbatch {} has no gradient in range {}", microbatch, action.range);
      content.microbatches |= bit_of(microbatch);
      content.chain = mix(content.chain, gradient->second);
      storage.gradients.erase(gradient);
    }
    storage.versions[action.version] = content;
    // The newest, the one before it, this one, which is announced before another one goes, and one for each reader.
    if (storage.versions.size() > workers_.size() + 3)
      broken("server {} keeps {} versions", node, storage.versions.size());
    ++outcome_.applied;
    // What a partner applies may still be lost with its primary, if the partner counts as lost before; nobody reads it
    // then.
    if (!is_partner_) promises_.remember(action.range, action.version, content);
    if (is_there(node)) promises_.check_content(action.range, action.version, content);
    outcome_.most_staleness = std::max(outcome_.most_staleness, action.staleness);
    promises_.check_staleness(action);
  }
  /// Of two places the older one is filled.
  void perform(Node node, const Keep& action, const Bytes& /*bytes*/) {
    Storage& storage = servers_[node].storage[action.range];
    storage.kept[action.version] = storage.versions.at(action.version);
    if (storage.kept.size() > 2) storage.kept.erase(storage.kept.begin());
  }
  void perform(Node node, const Forget& action, const Bytes& /*bytes*/) {
    servers_[node].storage[action.range].versions.erase(action.version);
  }
  void perform(Node node, const Compute& action, const Bytes& /*bytes*/) {
    WorkerNode& worker = workers_[node];
    worker.computing = action;
    worker.gradient = static_cast<std::uint64_t>(action.microbatch.value);
    for (int range = 0; range < rules_.ranges; ++range) {
      const Content content = read(worker, range);
      promises_.check_read(content, range, action.microbatch);
      worker.gradient = mix(worker.gradient, content.chain);
    }
    if (!computed_.insert(action.microbatch).second) ++outcome_.computed_again;
    under_way_ = std::max(under_way_, rules_.step_of(action.microbatch));
    trace("worker {} computes {}", node, action.microbatch);
  }
  void perform(Node node, const Restart& action, const Bytes& /*bytes*/) {
    if (node == current_ && is_there(node)) restart(action.range);
  }
  void restart(int range) {
    outcome_.has_restarted = true;
    trace("restart: range {} has no holder", range);
    if (plan_.are_spaced || lost_servers_ < std::min(plan_.servers, 2))
      broken("range {} is lost with {} of {} servers", range, lost_servers_, plan_.servers);
  }

  // --- promises

  Content read(const WorkerNode& worker, int range) const {
    std::optional<Content> content;
    for (int piece = 0; piece < rules_.pieces; ++piece) {
      const auto found = worker.pieces.find({range, worker.machine->version(range), piece});
      if (found == worker.pieces.end()) broken("piece {} of range {} was not read", piece, range);
      if (content && !(*content == found->second)) broken("the pieces of range {} are of two versions", range);
      content = found->second;
    }
    return *content;
  }
  /// A run of ranks ends when the first server is lost, with its node. Servers that join have no part in it.
  void check_kept_without(Node lost) {
    if (std::exchange(has_lost_server_, true) || rules_.mode != Mode::synchronous || plan_.servers < 2) return;
    std::vector<const std::map<int, Storage>*> left;
    for (const auto& [node, server] : servers_)
      if (node != lost) left.push_back(&server.storage);
    promises_.check_kept(left, under_way_);
  }
  /// What counts as done is in all ranges.
  void check_done() {
    const MicrobatchSet* done = current().done();
    if (!done || !is_there(current_)) return;
    for (int range = 0; range < rules_.ranges; ++range) {
      const Node primary = current().holders()[static_cast<std::size_t>(range)].primary;
      const std::uint64_t known = servers_[primary].storage[range].known();
      for (Microbatch microbatch(0); microbatch.value < rules_.total(); ++microbatch.value)
        if (done->contains(microbatch) && !(known & bit_of(microbatch)))
          broken("microbatch {} counts as done, but is not in range {}", microbatch, range);
    }
  }
  bool is_over() {
    if (outcome_.has_restarted) return true;
    return is_there(current_) && current().is_finished() && std::ranges::all_of(workers_, [&](const auto& worker) {
             return !is_there(worker.first) || worker.second.machine->is_finished();
           });
  }
  void check_end() {
    check_done();
    for (int range = 0; range < rules_.ranges; ++range) {
      const Node primary = current().holders()[static_cast<std::size_t>(range)].primary;
      promises_.check_end(range, servers_[primary].storage[range].versions.rbegin()->second);
    }
    if (plan_.lost_servers + plan_.lost_workers > 0) return;
    for (const auto& [node, worker] : workers_)
      if (worker.machine->repeated_pulls() > 0) broken("a version was gone while worker {} read it", node);
  }

  const Interleaving& plan_;
  const Rules& rules_;
  bool traces_;
  std::mt19937_64 random_;
  int next_server_ = 1, next_worker_ = 100, next_scheduler_ = 1000;
  Node current_{0};
  std::int64_t leadership_ = 0;
  std::vector<Node> nodes_;
  std::map<Node, ServerNode> servers_;
  std::map<Node, WorkerNode> workers_;
  std::map<Node, std::unique_ptr<Scheduler>> schedulers_;
  std::vector<Envelope> messages_;
  std::multimap<std::size_t, Envelope> late_;
  std::vector<std::pair<std::size_t, Fault>> faults_;
  std::vector<std::pair<std::size_t, Node>> declared_at_;
  bool is_partner_ = false;  ///< the message that is handled is for one
  int undeclared_ = 0, lost_servers_ = 0;
  bool has_lost_server_ = false;
  std::vector<LossNews> loss_news_;
  std::set<Node> crashed_, frozen_, lost_;
  Promises promises_;
  std::set<Microbatch> computed_;
  std::int64_t under_way_ = 0;  ///< the newest step that a worker computes
  Outcome outcome_;
};

}  // namespace

Outcome simulate(const Interleaving& interleaving, bool traces) {
  return Simulation(interleaving, traces).run();
}

}  // namespace distdl::parallel::server::simulation
