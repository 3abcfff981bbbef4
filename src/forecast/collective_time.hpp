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

/// The costs of messages between groups of the fabric (leaf switches, groups of a dragonfly), with groups in the place
/// of nodes: what all nodes of a group send to another group shares its links. In a dragonfly such messages go by way
/// of a third group, over twice as many global links (Valiant's routing, Kim et al. 2008).
comm::CostTable costs_between_groups(const Cluster& cluster);

/// The costs of messages between nodes where some go through further switches, without what their links cost.
comm::CostTable costs_with_switches(const Cluster& cluster);

/// What one collective is forecast to take.
struct CollectiveTime {
  double seconds = 0;
  std::string algorithm;
  double scratch_bytes = 0;  ///< that rank 0 keeps for it
  double shared_bytes = 0;   ///< of its areas in shared memory, which operations use in turn
  int node_waits = 0;        ///< of a rank, one after the other, for ranks of its node
  double sent_bytes = 0;     ///< by a rank of the first node, to other nodes, on average
};

/// Some of a cluster's ranks: first, first + stride and so on. So many such groups communicate at the same time by way
/// of a node's network.
struct RankGroup {
  int size = 1, stride = 1, first = 0, sharers = 1;
  bool is_apart = false;  ///< its operands are not in memory that the ranks of a node share
};

/// Forecasts the collectives of a step within a group of ranks. The ranks choose the algorithm by Cluster::known, as
/// the program does. Up to kSimulated ranks below one switch, the schedules of all ranks are simulated
/// (schedule_time.hpp); beyond, the algorithm's formula gives the time, also with the groups of the fabric in the place
/// of nodes, and the longer one counts.
class CollectiveTimes {
 public:
  static constexpr int kSimulated = 32;

  /// `leaves`: of the sums.
  CollectiveTimes(const Cluster& cluster, const RankGroup& group, comm::Leaves leaves);
  /// Of a sum of so many elements, each of so many bytes.
  const CollectiveTime& all_reduce(std::size_t count, std::size_t element = sizeof(float));
  /// The same, of which each rank gets its slice of so many floats.
  const CollectiveTime& reduce_scatter(std::span<const std::size_t> counts);
  /// Each rank contributes so many floats.
  const CollectiveTime& all_gather(std::span<const std::size_t> counts);
  /// By Cluster::known: what parallel::best_bucket() asks for.
  double expected_by_ranks(std::size_t floats) const;

 private:
  comm::Problem problem_of(comm::Collective collective) const;
  comm::Problem sum_problem(std::size_t count, std::size_t element) const;
  CollectiveTime forecast(comm::Problem problem) const;
  const CollectiveTime& forecast_once(comm::Problem problem);

  Cluster cluster_;
  std::vector<int> nodes_;  ///< of each rank
  comm::Leaves leaves_;
  bool is_apart_;
  std::map<std::pair<std::size_t, std::size_t>, CollectiveTime> sums_;
  /// Of slices. Beyond kSimulated ranks sums of slices that differ by less than about a hundredth count as one.
  std::map<std::pair<comm::Collective, std::vector<std::size_t>>, CollectiveTime> moves_;
};

}  // namespace distdl::forecast
