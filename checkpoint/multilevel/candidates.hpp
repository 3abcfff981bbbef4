// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/inventory.hpp>

namespace distdl::checkpoint {

/// The replicas of one snapshot, which is one step of one start and world, and the sources of its parts.
class Candidates {
 public:
  /// `members`: the indices of the snapshot's replicas. `nodes[rank]`: the node of a rank of the present world. The
  /// spans must outlive this object.
  Candidates(std::span<const Replica> replicas, std::span<const std::string> nodes,
             const std::vector<std::size_t>& members);

  /// The best source of each rank's snapshot: the memory of the node on which that rank runs, or the first level that
  /// finds it. Returns nothing if a rank's snapshot is nowhere.
  std::optional<RestorePlan> plan() const;

  /// The first replica of that rank's snapshot, wherever it is.
  std::optional<std::size_t> any(int rank) const;
  /// The first replica of that rank's snapshot that a level keeps; null: memory of any node.
  std::optional<std::size_t> kept_by(const Level* level, int rank) const;
  /// The parities of each set, by the ranks that keep them.
  const std::map<std::vector<int>, std::map<int, std::size_t>>& parities() const noexcept { return parities_; }

 private:
  std::optional<ShardPlan> find(int rank) const;
  std::optional<std::size_t> in_memory_of_its_node(int rank) const;
  std::span<const std::size_t> snapshots_of(int rank) const;

  std::span<const Replica> replicas_;
  std::span<const std::string> nodes_;
  SnapshotLabel label_;                                ///< label of one of them
  std::map<int, std::vector<std::size_t>> snapshots_;  ///< by rank
  std::map<std::vector<int>, std::map<int, std::size_t>> parities_;
};

}  // namespace distdl::checkpoint
