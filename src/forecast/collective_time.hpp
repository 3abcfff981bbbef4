// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <distdl/comm/schedule.hpp>
#include <distdl/forecast/cluster.hpp>
#include <distdl/parallel/plan.hpp>

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
  double sent_bytes = 0;     ///< by rank 0, to other nodes; 0 where it was not counted
};

/// Forecasts the collectives of a step. The ranks choose the algorithm by Cluster::known, as the program does. Up to
/// kSimulated ranks below one switch, the schedules of all ranks are simulated (schedule_time.hpp); beyond, the
/// algorithm's formula gives the time, also with the groups of the fabric in the place of nodes, and the longer one
/// counts.
class CollectiveTimes {
 public:
  static constexpr int kSimulated = 32;

  CollectiveTimes(const Cluster& cluster, const parallel::MicrobatchPlan& plan);
  /// Of a sum of so many floats over the ranks, along the tree of the plan's microbatches.
  const CollectiveTime& all_reduce(std::size_t floats);
  /// Each rank contributes so many floats.
  CollectiveTime all_gather(std::span<const std::size_t> counts) const;
  /// By Cluster::known: what parallel::best_bucket() asks for.
  double expected_by_ranks(std::size_t floats) const;

 private:
  comm::Problem sum_problem(std::size_t floats) const;
  CollectiveTime forecast(comm::Problem problem) const;

  Cluster cluster_;
  std::vector<int> nodes_;  ///< of each rank
  int leaves_;
  std::vector<comm::LeafRange> ranges_;
  std::map<std::size_t, CollectiveTime> sums_;
};

}  // namespace distdl::forecast
