// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/server/timed_run.hpp"

#include <algorithm>
#include <ctime>
#include <deque>
#include <functional>
#include <queue>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/placement.hpp>
#include <distdl/parallel/server/scheduler.hpp>
#include <distdl/parallel/server/server.hpp>
#include <distdl/parallel/server/worker.hpp>

namespace distdl::parallel::server::simulation {
namespace {

constexpr double kHeader = 64;  // bytes of each message
constexpr double kTick = 1;     // seconds, as in Runtime

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Envelope {
  Node from, to;
  Message message;
  double bytes = 0;
};

/// A node: its link in both directions and its processor take one message after the other.
struct Station {
  explicit Station(std::variant<Server, Worker, Scheduler> its_machine) : machine(std::move(its_machine)) {}
  std::variant<Server, Worker, Scheduler> machine;
  double sends_until = 0, receives_until = 0;
  bool is_busy = false;
  std::deque<Envelope> inbox{};
  // Of a worker.
  LeaseId lease{}, computing{};
  int unacknowledged = 0;       ///< gradients on their way
  std::vector<Version> sent{};  ///< per range: the version that it has
};

enum class Kind { arrival, receipt, idle, computed, tick };
struct Event {
  double time;
  std::uint64_t order;
  Kind kind;
  Node node;
  std::size_t envelope;
  bool operator>(const Event& other) const { return std::tie(time, order) > std::tie(other.time, other.order); }
};

class Simulation {
 public:
  explicit Simulation(const TimedRun& run) : run_(run), random_(run.seed) {
    const Rules& rules = run.rules;
    std::vector<Node> servers;
    for (int i = 0; i < rules.ranges; ++i) servers.emplace_back(i);
    const auto placement = first_placement(rules.ranges, servers, rules.has_partners ? 1 : 0);
    for (const Node server : servers) stations_.emplace_back(Server(rules, server, placement));
    std::set<Node> workers;
    for (int i = 0; i < run.workers; ++i) {
      workers.insert(Node(static_cast<int>(stations_.size())));
      stations_.emplace_back(Worker(rules)).sent.resize(servers.size(), Version(-1));
    }
    scheduler_ = Node(static_cast<int>(stations_.size()));
    stations_.emplace_back(Scheduler(rules, Leadership(1), {servers.begin(), servers.end()}, workers));
    versions_.resize(servers.size(), 1);
    for (const Node worker : workers) add(kTick, Kind::tick, worker);
    add(kTick, Kind::tick, scheduler_);
  }

  TimedOutcome run() {
    const double start = processor_seconds();
    perform(scheduler_, 0);
    const auto& scheduler = std::get<Scheduler>(of(scheduler_).machine);
    while (!scheduler.is_finished()) {
      require<InternalError>(!events_.empty(), "{}", "nothing happens any more, but not all microbatches are done");
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
    outcome_.seconds = processor_seconds() - start;
    return outcome_;
  }

 private:
  Station& of(Node node) { return stations_[static_cast<std::size_t>(node.value)]; }
  void add(double time, Kind kind, Node node, std::size_t envelope = 0) {
    events_.push({time, ++order_, kind, node, envelope});
  }

  void handle(const Event& event) {
    Station& station = of(event.node);
    switch (event.kind) {
      case Kind::arrival:
        station.receives_until =
            std::max(event.time, station.receives_until + envelopes_[event.envelope].bytes / run_.bandwidth);
        return add(station.receives_until, Kind::receipt, event.node, event.envelope);
      case Kind::receipt:
        station.inbox.push_back(std::move(envelopes_[event.envelope]));
        free_.push_back(event.envelope);
        if (!station.is_busy) work(event.node, event.time);
        return;
      case Kind::idle:
        station.is_busy = false;
        if (!station.inbox.empty()) work(event.node, event.time);
        return;
      case Kind::computed:
        std::get<Worker>(station.machine).computed(station.computing);
        perform(event.node, event.time);
        return;
      case Kind::tick:
        return tick(event.node, event.time);
    }
  }

  void work(Node node, double now) {
    Station& station = of(node);
    const Envelope envelope = std::move(station.inbox.front());
    station.inbox.pop_front();
    if (std::holds_alternative<Pushed>(envelope.message)) --station.unacknowledged;
    const bool is_scheduler = node == scheduler_;
    const double start = is_scheduler ? processor_seconds() : 0;
    std::visit([&](auto& machine) { machine.receive(envelope.from, envelope.message); }, station.machine);
    if (is_scheduler) {
      outcome_.scheduler_seconds += processor_seconds() - start;
      measure(now);
    }
    station.is_busy = true;
    const double end = perform(node, now + (is_scheduler ? run_.schedule : run_.message));
    add(end, Kind::idle, node);
  }
  /// As Runtime does.
  void tick(Node node, double now) {
    add(now + kTick, Kind::tick, node);
    if (of(node).unacknowledged > 0) return;
    std::visit([](auto& machine) { machine.tick(); }, of(node).machine);
    perform(node, now);
  }
  void measure(double now) {
    const MicrobatchSet* done = std::get<Scheduler>(of(scheduler_).machine).done();
    const std::int64_t count = done ? done->size() : 0, total = run_.rules.total();
    if (count == std::exchange(done_, count)) return;
    if (count == total / 5) begin_ = now;
    if (count == total - total / 5) outcome_.rate = static_cast<double>(count - total / 5) / (now - begin_);
  }

  /// What a machine asks for, from this moment on. Returns when it is done.
  double perform(Node node, double now) {
    for (const Action& action : std::visit([](auto& machine) { return machine.take(); }, of(node).machine))
      std::visit([&](const auto& of_its_kind) { act(node, of_its_kind, now); }, action);
    return now;
  }
  void act(Node node, const Send& send, double& now) {
    std::size_t index = envelopes_.size();
    if (free_.empty()) {
      envelopes_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    envelopes_[index] = {node, send.to, send.message, bytes_of(node, send)};
    Station& station = of(node);
    station.sends_until = std::max(now, station.sends_until) + envelopes_[index].bytes / run_.bandwidth;
    add(station.sends_until + run_.latency, Kind::arrival, send.to, index);
    ++outcome_.messages;
  }
  double bytes_of(Node node, const Send& send) {
    if (const auto* lease = std::get_if<Lease>(&send.message)) {
      outcome_.leases += std::exchange(of(send.to).lease, lease->id) != lease->id;
      return kHeader + static_cast<double>(lease->directory.primaries.size() * sizeof(Node));
    }
    if (const auto* pulled = std::get_if<Pulled>(&send.message)) {
      Version& last = of(send.to).sent[static_cast<std::size_t>(pulled->range)];
      if (!pulled->version || std::exchange(last, *pulled->version) == *pulled->version) return kHeader;
      return kHeader + run_.range_bytes;
    }
    if (std::holds_alternative<Push>(send.message)) ++of(node).unacknowledged;
    const bool has_gradient =
        std::holds_alternative<Push>(send.message) || std::holds_alternative<Replicate>(send.message);
    return kHeader + (has_gradient ? run_.range_bytes : 0);
  }
  /// With `synchronous` gradients are added up as they come.
  void act(Node /*node*/, const Store& /*store*/, double& now) {
    if (run_.rules.mode == Mode::synchronous) now += run_.update;
  }
  void act(Node node, const Apply& apply, double& now) {
    now += run_.update;
    ++outcome_.applied;
    if (node.value != apply.range) return;
    std::size_t& versions = versions_[static_cast<std::size_t>(apply.range)];
    outcome_.most_versions = std::max(outcome_.most_versions, ++versions);
  }
  void act(Node node, const Forget& forget, double& /*now*/) {
    if (node.value == forget.range) --versions_[static_cast<std::size_t>(forget.range)];
  }
  void act(Node node, const Compute& compute, double& now) {
    of(node).computing = compute.lease;
    std::uniform_real_distribution<double> seconds(run_.least_compute, run_.most_compute);
    add(now + seconds(random_), Kind::computed, node);
  }
  void act(Node /*node*/, const Keep& /*keep*/, double& /*now*/) {}
  void act(Node /*node*/, const Adopt& /*adopt*/, double& /*now*/) {}
  void act(Node /*node*/, const Restart& /*restart*/, double& /*now*/) {
    throw InternalError("a range has lost its holders in a run without losses");
  }

  const TimedRun& run_;
  std::mt19937_64 random_;
  std::deque<Station> stations_;  ///< servers, workers, the scheduler
  Node scheduler_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  std::vector<Envelope> envelopes_;  ///< on their way
  std::vector<std::size_t> free_;    ///< places of envelopes_
  std::vector<std::size_t> versions_;
  std::int64_t done_ = 0;
  double begin_ = 0;
  TimedOutcome outcome_;
};

}  // namespace

TimedOutcome simulate(const TimedRun& run) {
  return Simulation(run).run();
}

double Bounds::least() const {
  return std::min({workers, links, updates, scheduler});
}

Bounds bounds_of(const TimedRun& run) {
  const bool has_partners = run.rules.has_partners && run.rules.ranges > 1;
  const bool is_synchronous = run.rules.mode == Mode::synchronous;
  const double holders = has_partners ? 2 : 1, ranges = run.rules.ranges;
  const double transfer = run.range_bytes / run.bandwidth, turn = 2 * run.latency + run.message;
  const double updates = is_synchronous ? 1 + 1 / static_cast<double>(run.rules.microbatches) : 1;
  // Of a server, for each microbatch: Pull, Push, and for its own range and the other one Replicated and Replicate.
  const double link = holders * transfer, processor = 2 * holders * run.message + holders * updates * run.update;
  // With `synchronous` all pull at once when a step is there, and the step ends with the slowest worker.
  const double pulls = is_synchronous ? std::max(ranges, static_cast<double>(run.rules.microbatches)) : ranges;
  const double compute = is_synchronous ? run.most_compute : (run.least_compute + run.most_compute) / 2;
  const double pull = turn + pulls * transfer, push = turn + ranges * transfer + run.update;
  const double copy = has_partners ? turn + run.message + transfer + run.update : 0;
  const double lease = turn + run.schedule + 2 * ranges * run.message;
  // Each worker also asks at each tick.
  return {run.workers / (lease + pull + compute + push + copy), 1 / link, 1 / processor,
          1 / run.schedule - run.workers / kTick};
}

}  // namespace distdl::parallel::server::simulation
