// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include <distdl/comm/algorithms/registry.hpp>
#include <distdl/comm/selection/selection.hpp>
#include <distdl/forecast/collective_time.hpp>
#include <distdl/forecast/schedule_time.hpp>

namespace distdl::forecast {
namespace {
constexpr std::size_t kCounted = std::size_t{1} << 9;  ///< elements of a segment where the sent bytes are counted

bool has_groups(const Cluster& cluster) {
  return cluster.fabric.topology != Topology::flat && cluster.nodes > cluster.fabric.group;
}

/// True if every rank or node sends a part to every other one, near and far alike.
bool spreads(const comm::Algorithm& algorithm) {
  return algorithm.shared_use != comm::SharedUse::none || algorithm.name == "pairwise";
}

comm::CostTable with_rate_outside(const Cluster& cluster) {
  comm::CostTable costs = costs_with_switches(cluster);
  const double outside = 1 - static_cast<double>(cluster.fabric.group) / cluster.nodes;
  costs.between.bandwidth /= std::max(1.0, cluster.fabric.oversubscription * outside);
  return costs;
}

double formula_seconds(comm::Problem problem, const comm::Choice& choice, const Cluster& cluster) {
  if (!has_groups(cluster)) return predict_seconds(problem, choice, comm::Placement(problem), cluster.costs);
  if (spreads(*choice.algorithm))
    return predict_seconds(problem, choice, comm::Placement(problem), with_rate_outside(cluster));
  const double near = predict_seconds(problem, choice, comm::Placement(problem), costs_with_switches(cluster));
  for (int& node : problem.nodes) node /= cluster.fabric.group;
  return std::max(near, predict_seconds(problem, choice, comm::Placement(problem), costs_between_groups(cluster)));
}

int ranks_of_first_node(const comm::Problem& problem) {
  return static_cast<int>(std::ranges::count(problem.nodes, problem.nodes.front()));
}

void count_room(const comm::Schedule& schedule, const comm::Problem& problem, CollectiveTime& time) {
  constexpr double kAreas = 4;  // comm::NodeMemory::kOperandBlocks
  time.scratch_bytes = static_cast<double>(schedule.scratch * problem.element);
  time.shared_bytes = kAreas * static_cast<double>(schedule.shared * problem.element);
}

/// Counts a rank's waits: one for the arrival of the node's ranks, and one for each stage that they reach.
int node_waits_of(const comm::Schedule& schedule) {
  std::set<std::uint32_t> stages;
  for (const auto& step : schedule.steps)
    if (step.kind == comm::ScheduleStep::Kind::await) stages.insert(step.stage);
  return static_cast<int>(stages.size()) + (schedule.uses_node_ranks ? 1 : 0);
}

std::vector<comm::Schedule> schedules_of(comm::Problem problem, const comm::Choice& choice, int ranks) {
  std::vector<comm::Schedule> schedules;
  for (problem.rank = 0; problem.rank < ranks; ++problem.rank) schedules.push_back(make_schedule(problem, choice));
  return schedules;
}

/// Reduces many ranks to fewer, with vectors of the same length: each node then sends nearly as much.
comm::Problem with_fewer_ranks(comm::Problem problem) {
  constexpr std::size_t kMost = 256;
  auto& nodes = problem.nodes;
  if (nodes.size() <= kMost) return problem;
  std::size_t size = kMost;
  while (size > 1 && nodes[size - 1] == nodes[size]) --size;  // whole nodes
  nodes.resize(size);
  problem.size = static_cast<int>(size);
  if (!problem.counts.empty())
    problem.counts.assign(size, std::accumulate(problem.counts.begin(), problem.counts.end(), std::size_t{0}) / size);
  if (problem.ranges.empty()) return problem;
  problem.ranges.resize(size);
  problem.leaves = problem.ranges.back().first + problem.ranges.back().count;
  return problem;
}

/// Reduces the vector and slices to a few segments: a schedule needs room only for segments under way at a time.
comm::Problem with_few_segments(comm::Problem problem, std::size_t segment) {
  constexpr std::size_t kSegments = 4;
  if (segment == 0) return problem;
  const auto most = kSegments * segment;
  problem.count = std::min(problem.count, most * static_cast<std::size_t>(problem.size));
  for (auto& count : problem.counts) count = std::min(count, most);
  return problem;
}

/// Returns the elements of the vector, or of all slices.
double elements_of(const comm::Problem& problem) {
  return static_cast<double>(std::accumulate(problem.counts.begin(), problem.counts.end(), problem.count));
}

/// Returns equal numbers for arguments that differ by less than about a hundredth.
std::size_t percents_of(double number) {
  return static_cast<std::size_t>(std::lround(100 * std::log(std::max(1.0, number))));
}

/// `schedules`: schedules of at least the ranks of the first node, which are the first ones.
void count_sent(const std::vector<comm::Schedule>& schedules, const comm::Problem& problem, CollectiveTime& time) {
  const int here = ranks_of_first_node(problem);
  std::size_t sent = 0;
  for (int rank = 0; rank < here; ++rank)
    for (const auto& step : schedules[static_cast<std::size_t>(rank)].steps)
      if (step.kind == comm::ScheduleStep::Kind::send &&
          problem.nodes[static_cast<std::size_t>(step.peer)] != problem.nodes.front())
        sent += step.block.count;
  time.sent_bytes = static_cast<double>(sent * problem.element) / here;
}
}  // namespace

comm::CostTable costs_with_switches(const Cluster& cluster) {
  comm::CostTable costs = cluster.costs;
  if (!has_groups(cluster)) return costs;
  const auto& fabric = cluster.fabric;
  constexpr double kDragonfly = 5;  // local, global, local, global, local: by way of a third group
  double hops = kDragonfly;
  if (fabric.topology == Topology::fat_tree)
    hops = 2 * std::ceil(std::log(cluster.nodes) / std::log(std::max(2, fabric.group)) - 1);
  costs.between.latency += hops * fabric.switch_seconds;
  return costs;
}

comm::CostTable costs_between_groups(const Cluster& cluster) {
  constexpr double kNoLimit = 1e30;
  comm::CostTable costs = costs_with_switches(cluster);
  const double detours = cluster.fabric.topology == Topology::dragonfly ? 2 : 1;
  costs.within = cluster.costs.between;
  costs.between.bandwidth *= cluster.fabric.group / std::max(1.0, cluster.fabric.oversubscription * detours);
  costs.processors = costs.memory = costs.cache = kNoLimit;
  return costs;
}

CollectiveTimes::CollectiveTimes(const Cluster& cluster, const RankGroup& group, comm::Leaves leaves)
    : cluster_(cluster), leaves_(std::move(leaves)), is_apart_(group.is_apart) {
  nodes_.reserve(static_cast<std::size_t>(group.size));
  for (int k = 0; k < group.size; ++k) nodes_.push_back((group.first + k * group.stride) / cluster.ranks_per_node);
  cluster_.costs.between.bandwidth /= group.sharers;
}

comm::Problem CollectiveTimes::problem_of(comm::Collective collective) const {
  comm::Problem problem;
  problem.collective = collective;
  problem.size = static_cast<int>(nodes_.size());
  problem.nodes = nodes_;
  problem.element = sizeof(float);
  return problem;
}

comm::Problem CollectiveTimes::sum_problem(std::size_t count, std::size_t element) const {
  auto problem = problem_of(comm::Collective::all_reduce);
  problem.count = count;
  problem.element = element;
  problem.leaves = leaves_.count;
  problem.ranges = leaves_.ranges;
  return problem;
}

CollectiveTime CollectiveTimes::forecast(comm::Problem problem) const {
  if (problem.size == 1) return {};
  comm::Choice choice = choose(problem, cluster_.known, comm::Order::deterministic);
  if (is_apart_ && choice.algorithm->shared_use == comm::SharedUse::operands)  // as comm's plans do
    choice = choose(problem, cluster_.known, comm::Order::deterministic, comm::Operands::apart);
  else if (is_apart_)
    choice.staged = true;
  CollectiveTime time{0, std::string(choice.algorithm->name)};
  if (problem.size > kSimulated || has_groups(cluster_)) {
    // The sent bytes do not depend on segments, and there is a step for each of these.
    auto whole = choice;
    whole.segment = 0;
    const auto fewer = with_fewer_ranks(problem);
    const auto shorter = with_few_segments(fewer, kCounted);
    count_sent(schedules_of(shorter, whole, ranks_of_first_node(shorter)), shorter, time);
    time.sent_bytes *= elements_of(fewer) / elements_of(shorter);
    count_room(make_schedule(with_few_segments(fewer, choice.segment), choice), fewer, time);
    time.seconds = formula_seconds(std::move(problem), choice, cluster_);
    return time;
  }
  const auto schedules = schedules_of(problem, choice, problem.size);
  count_sent(schedules, problem, time);
  count_room(schedules.front(), problem, time);
  time.node_waits = node_waits_of(schedules.front());
  const comm::Placement placement(problem);
  time.seconds =
      schedule_seconds(schedules, problem, comm::CostModel(problem, choice, placement, cluster_.costs).costs);
  return time;
}

const CollectiveTime& CollectiveTimes::all_reduce(std::size_t count, std::size_t element) {
  const std::pair size(count, element);
  if (const auto found = sums_.find(size); found != sums_.end()) return found->second;
  return sums_.emplace(size, forecast(sum_problem(count, element))).first->second;
}

const CollectiveTime& CollectiveTimes::forecast_once(comm::Problem problem) {
  std::pair key(problem.collective, problem.counts);
  if (problem.size > kSimulated) key.second = {percents_of(elements_of(problem))};
  if (const auto found = moves_.find(key); found != moves_.end()) return found->second;
  return moves_.emplace(std::move(key), forecast(std::move(problem))).first->second;
}

const CollectiveTime& CollectiveTimes::reduce_scatter(std::span<const std::size_t> counts) {
  auto problem = problem_of(comm::Collective::reduce_scatter);
  problem.counts.assign(counts.begin(), counts.end());
  problem.leaves = leaves_.count;
  problem.ranges = leaves_.ranges;
  return forecast_once(std::move(problem));
}

const CollectiveTime& CollectiveTimes::all_gather(std::span<const std::size_t> counts) {
  auto problem = problem_of(comm::Collective::all_gather);
  problem.counts.assign(counts.begin(), counts.end());
  return forecast_once(std::move(problem));
}

double CollectiveTimes::expected_by_ranks(std::size_t floats) const {
  return candidates(sum_problem(floats, sizeof(float)), cluster_.known, comm::Order::deterministic).front().seconds;
}

}  // namespace distdl::forecast
