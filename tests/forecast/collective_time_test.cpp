// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include <distdl/comm/algorithms/registry.hpp>
#include <distdl/comm/selection/selection.hpp>
#include <distdl/forecast/collective_time.hpp>
#include <distdl/forecast/schedule_time.hpp>
#include <distdl/parallel/plan.hpp>

namespace distdl::forecast {
namespace {
constexpr double kMiB = 1 << 20;

comm::Problem sum_of(int ranks, int per_node, std::size_t floats) {
  comm::Problem problem;
  problem.collective = comm::Collective::all_reduce;
  problem.size = ranks;
  for (int r = 0; r < ranks; ++r) problem.nodes.push_back(r / per_node);
  problem.count = floats;
  problem.element = sizeof(float);
  return problem;
}

/// A network whose messages take nothing but the time of their bytes, on ranks that add at once.
comm::CostTable only_bandwidth(double rate) {
  comm::CostTable costs;
  costs.between = {1e-12, 1e-12, rate};
  costs.step = costs.signal = 1e-12;
  costs.reduce = costs.copy = costs.memory = 1e18;
  return costs;
}

double simulated(comm::Problem problem, const char* algorithm, const comm::CostTable& costs) {
  const comm::Choice choice{
      comm::algorithm_of(algorithm), 0, false,
      comm::algorithm_of(algorithm)->reorders_sums ? comm::Order::any : comm::Order::deterministic};
  std::vector<comm::Schedule> schedules;
  for (problem.rank = 0; problem.rank < problem.size; ++problem.rank)
    schedules.push_back(make_schedule(problem, choice));
  return schedule_seconds(schedules, problem, costs);
}

/// Of all ranks of a cluster, which have so many microbatches each.
CollectiveTimes times_of(const Cluster& cluster, int each = 1, int sharers = 1) {
  const int ranks = cluster.ranks();
  const auto plan = parallel::make_plan({.microbatches = each * ranks, .microbatch_size = 1}, ranks);
  return {cluster, {.size = ranks, .sharers = sharers}, {plan.microbatches, plan.ranges}};
}

Cluster cluster_of(int nodes, const Fabric& fabric, double rate = 1e9) {
  Cluster cluster{nodes, 1, fabric, only_bandwidth(rate), {}};
  cluster.known = cluster.costs;
  return cluster;
}

TEST(ScheduleSeconds, RingAndHalvingMoveWhatTheirFormulasSay) {
  const double rate = 1e9, bytes = 4 * kMiB;
  for (int ranks : {2, 4, 8})
    for (const char* algorithm : {"ring", "recursive_halving"}) {
      const auto seconds = simulated(sum_of(ranks, 1, 1 << 20), algorithm, only_bandwidth(rate));
      const double expected = 2 * bytes * (ranks - 1) / ranks / rate;  // each way, of each rank
      EXPECT_NEAR(seconds / expected, 1, 0.02) << algorithm << " of " << ranks;
    }
}

TEST(ScheduleSeconds, LatencyCountsOncePerRound) {
  auto costs = only_bandwidth(1e18);
  costs.between.latency = 1e-3;
  EXPECT_NEAR(simulated(sum_of(8, 1, 8), "recursive_doubling", costs), 3e-3, 1e-6);
  EXPECT_NEAR(simulated(sum_of(8, 1, 64), "recursive_halving", costs), 6e-3, 1e-6);
}

TEST(ScheduleSeconds, RanksOfANodeShareItsNetwork) {
  const auto apart = simulated(sum_of(4, 1, 1 << 20), "pairwise", only_bandwidth(1e9));
  const auto shared = simulated(sum_of(4, 2, 1 << 20), "pairwise", only_bandwidth(1e9));
  EXPECT_GT(shared, 1.2 * apart);  // two ranks send two thirds of what they did through one device
}

TEST(ScheduleSeconds, IsOfTheOrderOfTheCostModelForEveryChoice) {
  for (const auto& problem : {sum_of(4, 1, 1 << 18), sum_of(8, 2, 1 << 18), sum_of(4, 4, 1 << 18), sum_of(3, 1, 4096)})
    for (const auto& [choice, predicted] : candidates(problem, {}, comm::Order::deterministic)) {
      std::vector<comm::Schedule> schedules;
      auto own = problem;
      for (own.rank = 0; own.rank < own.size; ++own.rank) schedules.push_back(make_schedule(own, choice));
      const double seconds = schedule_seconds(schedules, problem, {});
      EXPECT_LT(std::abs(std::log2(seconds / predicted)), 2.5)
          << choice.algorithm->name << " of " << problem.size << " ranks, segment " << choice.segment;
    }
}

TEST(CollectiveTimes, APartOfEachRankThatIsNoSubtreeIsSentInPieces) {
  const auto cluster = cluster_of(2, {});
  auto whole = times_of(cluster), pieces = times_of(cluster, 3);
  EXPECT_GT(pieces.all_reduce(1 << 20).seconds, 1.2 * whole.all_reduce(1 << 20).seconds);
}

TEST(CollectiveTimes, AnOversubscribedFatTreeIsSlowerUnlessItIsWide) {
  const auto seconds = [](const Fabric& fabric) {
    return times_of(cluster_of(256, fabric)).all_reduce(1 << 24).seconds;
  };
  const double flat = seconds({});
  EXPECT_NEAR(seconds({.topology = Topology::fat_tree, .oversubscription = 1}) / flat, 1, 0.01);
  EXPECT_GT(seconds({.topology = Topology::fat_tree, .oversubscription = 32}), 1.5 * flat);
  EXPECT_GE(seconds({.topology = Topology::dragonfly, .oversubscription = 32}),
            seconds({.topology = Topology::fat_tree, .oversubscription = 32}));
}

TEST(CollectiveTimes, GroupsThatSumAtTheSameTimeShareTheNetwork) {
  const auto cluster = cluster_of(4, {});
  auto alone = times_of(cluster), shared = times_of(cluster, 1, 3);
  EXPECT_NEAR(shared.all_reduce(1 << 20).seconds / alone.all_reduce(1 << 20).seconds, 3, 0.1);
  const std::vector<std::size_t> slices(4, 1 << 18);
  EXPECT_LT(alone.reduce_scatter(slices).seconds, 0.8 * alone.all_reduce(1 << 20).seconds);
}

TEST(CollectiveTimes, TrafficIsCountedForAnyNumberOfRanks) {
  constexpr double kBytes = 4 * kMiB;
  for (const int nodes : {32, 64, 1024})
    for (const Fabric& fabric : {Fabric{}, Fabric{.topology = Topology::fat_tree, .group = 16}}) {
      const auto time = times_of(cluster_of(nodes, fabric)).all_reduce(1 << 20);
      EXPECT_NEAR(time.sent_bytes / kBytes, 2, 0.1) << nodes << " nodes, each of which sends each byte about twice";
      EXPECT_GT(time.scratch_bytes, 0) << nodes;
    }
  for (const std::size_t floats : {std::size_t{1} << 20, std::size_t{1} << 28}) {  // of few segments, and of many
    auto cluster = cluster_of(64, {});
    cluster.known = {};
    const auto problem = sum_of(64, 1, floats);
    const auto choice = choose(problem, cluster.known, comm::Order::deterministic);
    const auto schedule = make_schedule(problem, choice);
    std::size_t sent = 0;
    for (const auto& step : schedule.steps) sent += step.kind == comm::ScheduleStep::Kind::send ? step.block.count : 0;
    const auto time = times_of(cluster).all_reduce(floats);
    EXPECT_EQ(time.scratch_bytes, static_cast<double>(schedule.scratch * sizeof(float))) << choice.segment;
    EXPECT_NEAR(time.sent_bytes / static_cast<double>(sent * sizeof(float)), 1, 1e-3) << choice.segment;
  }
  auto wide = cluster_of(64, {});
  wide.ranks_per_node = 4;
  EXPECT_NEAR(4 * times_of(wide).all_reduce(1 << 20).sent_bytes / kBytes, 2, 0.2) << "by four ranks of a node";
}

TEST(CollectiveTimes, WithSwitchesAMessageTakesLonger) {
  auto cluster = cluster_of(1024, {.topology = Topology::fat_tree, .group = 32, .switch_seconds = 1e-6});
  EXPECT_NEAR(costs_with_switches(cluster).between.latency, 2e-6, 1e-9);
  cluster.nodes = 32;  // below one switch
  EXPECT_EQ(costs_with_switches(cluster).between.latency, cluster.costs.between.latency);
}
}  // namespace
}  // namespace distdl::forecast
