// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/forecast/schedule_time.hpp>

namespace distdl::forecast {
namespace {
using comm::ScheduleStep;

/// A transfer of a rank's group. Its end is known once both sides have begun it.
struct HalfTransfer {
  double posted = 0, end = 0;
  bool is_matched = false;
};

struct SimulatedRank {
  std::size_t next = 0;  ///< step
  double clock = 0;
  std::vector<std::vector<std::size_t>> groups;  ///< transfers under way
  std::vector<HalfTransfer> transfers;
  std::vector<std::pair<std::uint32_t, double>> stages;  ///< signalled, and when others see it
  bool is_parked = false;
};

class ScheduleSimulation {
 public:
  ScheduleSimulation(std::span<const comm::Schedule> schedules, const comm::Problem& problem,
                     const comm::CostTable& costs)
      : schedules_(schedules), problem_(problem), costs_(costs), ranks_(schedules.size()) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].groups.resize(static_cast<std::size_t>(schedules[r].groups));
      if (schedules[r].reads_node_ranks) ranks_[r].clock = 2 * costs.signal;  // the arrival of all, and their signal
      ready_.emplace(ranks_[r].clock, r);
    }
  }

  double run() {
    std::size_t steps = 0;
    while (!ready_.empty()) {
      const std::size_t rank = ready_.top().second;
      ready_.pop();
      auto& self = ranks_[rank];
      if (self.next == schedules_[rank].steps.size()) continue;
      if (!perform(self, rank, schedules_[rank].steps[self.next])) {
        self.is_parked = true;
        continue;
      }
      ++self.next;
      ++steps;
      ready_.emplace(self.clock, rank);
    }
    double end = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      require<InternalError>(ranks_[r].next == schedules_[r].steps.size(), "rank {} waits forever after {} steps", r,
                             steps);
      end = std::max(end, ranks_[r].clock);
    }
    return end;
  }

 private:
  int node(std::size_t rank) const { return problem_.nodes[rank]; }
  double bytes(std::size_t elements) const { return static_cast<double>(elements * problem_.element); }

  void wake(std::size_t rank) {
    if (!std::exchange(ranks_[rank].is_parked, false)) return;
    ready_.emplace(ranks_[rank].clock, rank);
  }

  /// False: the rank waits for another one, which wakes it.
  bool perform(SimulatedRank& self, std::size_t rank, const ScheduleStep& step) {
    switch (step.kind) {
      case ScheduleStep::Kind::send:
      case ScheduleStep::Kind::receive:
        begin(self, rank, step);
        return true;
      case ScheduleStep::Kind::wait:
        return wait(self, step);
      case ScheduleStep::Kind::reduce:
        self.clock += costs_.step + work(rank, step);
        return true;
      case ScheduleStep::Kind::signal:
        self.clock += costs_.step;
        self.stages.emplace_back(step.stage, self.clock + costs_.signal);
        for (std::size_t r = 0; r < ranks_.size(); ++r)
          if (node(r) == node(rank)) wake(r);
        return true;
      case ScheduleStep::Kind::await:
        return await(self, step);
    }
    return true;
  }

  /// Reads all sources and writes all targets, in a rank's caches or in the memory that the ranks of a node share.
  double work(std::size_t rank, const ScheduleStep& step) const {
    double touched = 0;
    for (std::uint32_t i = 0; i < step.source_count; ++i)
      touched += bytes(schedules_[rank].sources[step.sources + i].block.count);
    for (std::uint32_t i = 0; i < step.target_count; ++i)
      touched += bytes(schedules_[rank].targets[step.targets + i].count);
    const double speed = step.source_count > 1 ? costs_.reduce : costs_.copy;
    if (touched <= costs_.cache) return touched / speed;
    return std::max(touched / speed, touched * sharers(rank) / costs_.memory);
  }

  /// Ranks of its node.
  double sharers(std::size_t rank) const {
    return static_cast<double>(std::count(problem_.nodes.begin(), problem_.nodes.end(), node(rank)));
  }

  /// A message within a node is copied twice. An operation on more than fits the caches has its data in memory.
  double near(std::size_t rank, double message) const {
    const double alone = message / costs_.within.bandwidth;
    const std::size_t all = std::accumulate(problem_.counts.begin(), problem_.counts.end(), problem_.count);
    return 2 * bytes(all) <= costs_.cache ? alone : std::max(alone, 4 * message * sharers(rank) / costs_.memory);
  }

  void begin(SimulatedRank& self, std::size_t rank, const ScheduleStep& step) {
    const auto peer = static_cast<std::size_t>(step.peer);
    const bool sends = step.kind == ScheduleStep::Kind::send, far = node(rank) != node(peer);
    self.clock += far ? costs_.between.overhead : costs_.within.overhead;
    self.groups[step.group].push_back(self.transfers.size());
    self.transfers.push_back({self.clock, 0, false});
    auto& [mine, theirs] = channels_[sends ? std::pair(rank, peer) : std::pair(peer, rank)];
    auto &own = sends ? mine : theirs, &others = sends ? theirs : mine;
    if (others.empty()) return own.push_back(self.transfers.size() - 1);
    auto& other = ranks_[peer].transfers[others.front()];
    others.pop_front();
    carry(sends ? rank : peer, sends ? peer : rank, bytes(step.block.count), sends ? self.transfers.back() : other,
          sends ? other : self.transfers.back());
    wake(peer);
  }

  void carry(std::size_t from, std::size_t to, double bytes, HalfTransfer& sent, HalfTransfer& received) {
    double start = std::max(sent.posted, received.posted);
    if (node(from) == node(to)) {
      sent.end = received.end = start + costs_.within.latency + near(from, bytes);
    } else {
      double &out = leaving_[node(from)], &in = arriving_[node(to)];
      start = std::max({start, out, in});
      out = in = sent.end = start + bytes / costs_.between.bandwidth;
      received.end = sent.end + costs_.between.latency;
    }
    sent.is_matched = received.is_matched = true;
  }

  static bool wait(SimulatedRank& self, const ScheduleStep& step) {
    auto& group = self.groups[step.group];
    if (!std::ranges::all_of(group, [&](std::size_t i) { return self.transfers[i].is_matched; })) return false;
    for (const std::size_t i : group) self.clock = std::max(self.clock, self.transfers[i].end);
    group.clear();
    return true;
  }

  bool await(SimulatedRank& self, const ScheduleStep& step) {
    const auto& stages = ranks_[static_cast<std::size_t>(step.peer)].stages;
    const auto found = std::ranges::lower_bound(stages, step.stage, {}, &std::pair<std::uint32_t, double>::first);
    if (found == stages.end()) return false;
    self.clock = std::max(self.clock, found->second) + costs_.step;
    return true;
  }

  using Queue = std::deque<std::size_t>;  ///< transfers of one side that the other side has not begun
  std::span<const comm::Schedule> schedules_;
  const comm::Problem& problem_;
  const comm::CostTable& costs_;
  std::vector<SimulatedRank> ranks_;
  std::map<std::pair<std::size_t, std::size_t>, std::pair<Queue, Queue>> channels_;  ///< sender, receiver
  std::map<int, double> leaving_, arriving_;  ///< until when a node's network device is busy
  using Turn = std::pair<double, std::size_t>;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> ready_;
};
}  // namespace

double schedule_seconds(std::span<const comm::Schedule> schedules, const comm::Problem& problem,
                        const comm::CostTable& costs) {
  return ScheduleSimulation(schedules, problem, costs).run();
}

}  // namespace distdl::forecast
