// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/server/interleaving.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>

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

/// What stands for the parameters of a range: which updates they have, and in which order.
struct Content {
  std::uint64_t microbatches = 0;  ///< bits
  std::uint64_t chain = 0;
  bool operator==(const Content&) const = default;
};

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0x7F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  return x ^ (x >> 27);
}

std::uint64_t bit_of(Microbatch microbatch) {
  return std::uint64_t{1} << microbatch.value;
}

/// What a server has of a range.
struct Storage {
  std::map<Version, Content> versions;
  std::map<Microbatch, std::uint64_t> gradients;
  std::uint64_t known() const {
    std::uint64_t bits = versions.empty() ? 0 : versions.rbegin()->second.microbatches;
    for (const auto& [microbatch, gradient] : gradients) bits |= bit_of(microbatch);
    return bits;
  }
};

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

struct Broken {
  std::string what;
};

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

class Simulation {
 public:
  Simulation(const Interleaving& interleaving, bool traces)
      : plan_(interleaving), rules_(interleaving.rules), traces_(traces), random_(interleaving.seed) {
    set_reference();
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
        if (++outcome_.events > kMostEvents) throw Broken{"no progress: not all microbatches are done"};
        begin_faults();
        deliver_loss_news();
        if (!outcome_.has_restarted) next_event();
      }
      if (!outcome_.has_restarted) check_end();
    } catch (const Broken& broken) {
      outcome_.broken = broken.what;
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
      if (holders.primary == node || holders.partner == node) server.storage[range].versions[Version(0)] = first(range);
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
    if (const auto* assign = std::get_if<Assign>(&envelope.message)) check_holder(envelope.to, assign->range);
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
      acknowledged_[pushed->range] |= bit_of(pushed->microbatch);
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
    if (!is_partner_) contents_.try_emplace({action.range, action.version}, content);
    if (is_there(node)) check_content(action.range, action.version, content);
    check_staleness(action);
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
      check_read(content, range, action.microbatch);
      worker.gradient = mix(worker.gradient, content.chain);
    }
    if (!computed_.insert(action.microbatch).second) ++outcome_.computed_again;
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

  template <class... Args>
  [[noreturn]] void broken(fmt::format_string<Args...> format, Args&&... args) const {
    throw Broken{fmt::format("event {}: {}", outcome_.events, fmt::format(format, std::forward<Args>(args)...))};
  }
  static Content first(int range) { return {0, static_cast<std::uint64_t>(range) + 1}; }

  /// The contents of all versions with `synchronous`, computed in order by one worker.
  void set_reference() {
    std::vector<Content> now;
    for (int range = 0; range < rules_.ranges; ++range) now.push_back(first(range));
    for (std::int64_t step = 0; step <= rules_.steps; ++step) {
      reference_.push_back(now);
      for (std::size_t range = 0; range < now.size(); ++range)
        for (std::int64_t i = 0; i < rules_.microbatches; ++i) {
          const Microbatch microbatch(step * rules_.microbatches + i);
          auto gradient = static_cast<std::uint64_t>(microbatch.value);
          for (const Content& content : reference_.back()) gradient = mix(gradient, content.chain);
          now[range].chain = mix(now[range].chain, gradient);
          if (microbatch.value < rules_.total()) now[range].microbatches |= bit_of(microbatch);
        }
    }
  }
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
  void check_read(const Content& content, int range, Microbatch microbatch) const {
    if (rules_.mode == Mode::asynchronous) return;
    const std::int64_t step = rules_.step_of(microbatch);
    const std::int64_t complete = std::max<std::int64_t>(0, step - rules_.staleness);
    const std::uint64_t needed = bit_of(Microbatch(complete * rules_.microbatches)) - 1;
    if ((content.microbatches & needed) != needed)
      broken("microbatch {} is computed with parameters that are too old in range {}", microbatch, range);
    if (rules_.mode == Mode::synchronous &&
        !(content == reference_[static_cast<std::size_t>(step)][static_cast<std::size_t>(range)]))
      broken("microbatch {} is computed with other parameters than of step {} in range {}", microbatch, step, range);
  }
  void check_staleness(const Apply& action) {
    outcome_.most_staleness = std::max(outcome_.most_staleness, action.staleness);
    const std::int64_t most =
        rules_.mode == Mode::synchronous ? 0 : (2 * rules_.staleness + 1) * rules_.microbatches - 1;
    if (rules_.mode != Mode::asynchronous && action.staleness > most)
      broken("range {} applies a gradient that lacks {} updates, {} at most", action.range, action.staleness, most);
    if (action.staleness < 0) broken("range {} applies a gradient of a later version", action.range);
  }
  /// All that can be read of a version, at any time and place, is the same.
  void check_content(int range, Version version, const Content& content) const {
    const auto same = contents_.find({range, version});
    if (same != contents_.end() && !(same->second == content))
      broken("range {} has two contents of version {}", range, version);
  }
  /// Who takes a range has all that was acknowledged.
  void check_holder(Node node, int range) {
    if (!is_there(node) || !servers_.contains(node)) return;
    const std::uint64_t missing = acknowledged_[range] & ~servers_[node].storage[range].known();
    if (missing) broken("server {} takes range {} without microbatch {}", node, range, std::countr_zero(missing));
    for (const auto& [version, content] : servers_[node].storage[range].versions)
      check_content(range, version, content);
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
    const std::uint64_t all = rules_.total() == 64 ? ~std::uint64_t{0} : bit_of(Microbatch(rules_.total())) - 1;
    for (int range = 0; range < rules_.ranges; ++range) {
      const Node primary = current().holders()[static_cast<std::size_t>(range)].primary;
      const Content& content = servers_[primary].storage[range].versions.rbegin()->second;
      if (content.microbatches != all) broken("range {} ends without all microbatches", range);
      if (rules_.mode == Mode::synchronous && !(content == reference_.back()[static_cast<std::size_t>(range)]))
        broken("range {} ends with other parameters than those of one worker", range);
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
  std::vector<LossNews> loss_news_;
  std::set<Node> crashed_, frozen_, lost_;
  std::map<int, std::uint64_t> acknowledged_;
  std::map<std::pair<int, Version>, Content> contents_;
  std::vector<std::vector<Content>> reference_;  ///< per step and range
  std::set<Microbatch> computed_;
  Outcome outcome_;
};

}  // namespace

Interleaving make_interleaving(std::uint64_t seed) {
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15u + 1);
  const auto between = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<std::uint64_t>(most - least + 1));
  };
  Interleaving plan;
  plan.seed = seed;
  plan.rules.mode = static_cast<Mode>(between(0, 2));
  plan.rules.staleness = plan.rules.mode == Mode::bounded ? between(0, 3) : 0;
  plan.rules.microbatches = between(1, 4);
  plan.rules.steps = between(2, 6);
  plan.rules.ranges = between(1, 4);
  plan.rules.pieces = between(1, 3);
  plan.rules.late_ticks = between(3, 30);
  plan.servers = between(1, 4);
  plan.workers = between(1, 4);
  constexpr std::array kDrops{0.0, 0.02, 0.1, 0.3};
  plan.drop = kDrops[random() % kDrops.size()];
  plan.repeat = kDrops[random() % kDrops.size()] / 2;
  if (random() % 5 == 0) return plan;  // without faults
  plan.lost_workers = between(0, 3);
  plan.lost_servers = between(0, 2);
  plan.lost_schedulers = between(0, 2);
  plan.frozen_workers = between(0, 1);
  plan.joined_workers = between(0, 1);
  plan.joined_servers = between(0, 1);
  plan.may_be_wrong = random() % 2 == 0;
  plan.are_spaced = random() % 4 != 0;
  return plan;
}

std::string describe(const Interleaving& plan) {
  constexpr std::array kModes{"synchronous", "bounded", "asynchronous"};
  return fmt::format(
      "seed {}: {}, staleness {}, {} steps of {}, {} ranges of {} pieces, {} servers, {} workers; drop {}, repeat {}; "
      "lost: "
      "{} workers, {} servers, {} schedulers; frozen {}; joined {} workers, {} servers{}{}",
      plan.seed, kModes[static_cast<std::size_t>(plan.rules.mode)], plan.rules.staleness, plan.rules.steps,
      plan.rules.microbatches, plan.rules.ranges, plan.rules.pieces, plan.servers, plan.workers, plan.drop, plan.repeat,
      plan.lost_workers, plan.lost_servers, plan.lost_schedulers, plan.frozen_workers, plan.joined_workers,
      plan.joined_servers, plan.may_be_wrong ? ", some run on" : "", plan.are_spaced ? ", spaced" : "");
}

Outcome simulate(const Interleaving& interleaving, bool traces) {
  return Simulation(interleaving, traces).run();
}

}  // namespace distdl::parallel::server::simulation
