// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/comm/schedule.hpp>
#include <distdl/forecast/cluster.hpp>

namespace distdl::forecast {

/// Returns the costs of messages between groups of the fabric (leaf switches, groups of a dragonfly), with groups in
/// the place of nodes: all messages from one group's nodes to another group share its links. In a dragonfly such
/// messages go by way of a third group, over twice as many global links (Valiant's routing, Kim et al. 2008).
comm::CostTable costs_between_groups(const Cluster& cluster);

/// Returns the costs of messages between nodes where some go through further switches, without the costs of their
/// links.
comm::CostTable costs_with_switches(const Cluster& cluster);

/// Forecast of one collective.
struct CollectiveTime {
  double seconds = 0;
  std::string algorithm;
  double scratch_bytes = 0;  ///< memory that rank 0 keeps for it
  double shared_bytes = 0;   ///< used bytes of its areas in shared memory, which operations use in turn
  int node_waits = 0;        ///< waits of a rank for ranks of its node, one after the other
  double sent_bytes = 0;     ///< bytes that a rank of the first node sends to other nodes, on average
};

/// Some of a cluster's ranks: first, first + stride and so on. So many such groups communicate at the same time by way
/// of a node's network.
struct RankGroup {
  int size = 1, stride = 1, first = 0, sharers = 1;
  bool is_apart = false;  ///< its operands are not in memory that the ranks of a node share
};

/// Forecasts the collectives of a step within a group of ranks. The ranks choose the algorithm by Cluster::known, as
/// the program does. Up to kSimulated ranks below one switch, the schedules of all ranks are simulated
/// (schedule_time.hpp). Beyond, the algorithm's formula gives the time, also with the groups of the fabric in the place
/// of nodes; the longer time counts.
class CollectiveTimes {
 public:
  static constexpr int kSimulated = 32;

  /// `leaves`: leaves of the sums.
  CollectiveTimes(const Cluster& cluster, const RankGroup& group, comm::Leaves leaves);
  /// Forecasts a sum of `count` elements of `element` bytes each.
  const CollectiveTime& all_reduce(std::size_t count, std::size_t element = sizeof(float));
  /// Forecasts a sum of floats of which each rank gets its slice of so many.
  const CollectiveTime& reduce_scatter(std::span<const std::size_t> counts);
  /// Forecasts an all-gather to which each rank contributes so many floats.
  const CollectiveTime& all_gather(std::span<const std::size_t> counts);
  /// Returns seconds of a sum by Cluster::known, as parallel::best_bucket() takes them.
  double expected_by_ranks(std::size_t floats) const;

 private:
  comm::Problem problem_of(comm::Collective collective) const;
  comm::Problem sum_problem(std::size_t count, std::size_t element) const;
  CollectiveTime forecast(comm::Problem problem) const;
  const CollectiveTime& forecast_once(comm::Problem problem);

  Cluster cluster_;
  std::vector<int> nodes_;  ///< node of each rank
  comm::Leaves leaves_;
  bool is_apart_;
  std::map<std::pair<std::size_t, std::size_t>, CollectiveTime> sums_;
  /// Collectives of slices. Beyond kSimulated ranks, slices whose lengths differ by less than about a hundredth count
  /// as equal.
  std::map<std::pair<comm::Collective, std::vector<std::size_t>>, CollectiveTime> moves_;
};

}  // namespace distdl::forecast
