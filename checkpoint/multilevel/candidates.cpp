// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/checkpoint/multilevel/candidates.hpp>
#include <distdl/checkpoint/multilevel/level.hpp>

namespace distdl::checkpoint {

Candidates::Candidates(std::span<const Replica> replicas, std::span<const std::string> nodes,
                       const std::vector<std::size_t>& members)
    : replicas_(replicas), nodes_(nodes), label_(replicas[members.front()].label) {
  for (std::size_t i : members) {
    const Replica& replica = replicas[i];
    if (replica.is_parity())
      parities_[replica.set].emplace(replica.label.rank, i);  // the first counts
    else
      snapshots_[replica.label.rank].push_back(i);
  }
}

std::optional<RestorePlan> Candidates::plan() const {
  RestorePlan plan{label_.step, label_.world, {}, label_.start};
  for (int rank = 0; rank < label_.world; ++rank) {
    auto shard = find(rank);
    if (!shard) return std::nullopt;
    plan.shards.push_back(*std::move(shard));
  }
  return plan;
}

std::optional<ShardPlan> Candidates::find(int rank) const {
  if (const auto here = in_memory_of_its_node(rank)) return ShardPlan{rank, RestoreSource(), {*here}};
  for (const Level* level : levels())
    if (auto replicas = level->find(*this, rank)) return ShardPlan{rank, RestoreSource(*level), *std::move(replicas)};
  return std::nullopt;
}

std::optional<std::size_t> Candidates::in_memory_of_its_node(int rank) const {
  if (static_cast<std::size_t>(rank) >= nodes_.size()) return std::nullopt;
  for (std::size_t i : snapshots_of(rank))
    if (replicas_[i].level == nullptr && replicas_[i].node == nodes_[static_cast<std::size_t>(rank)]) return i;
  return std::nullopt;
}

std::optional<std::size_t> Candidates::any(int rank) const {
  const auto found = snapshots_of(rank);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::optional<std::size_t> Candidates::kept_by(const Level* level, int rank) const {
  for (std::size_t i : snapshots_of(rank))
    if (replicas_[i].level == level) return i;
  return std::nullopt;
}

std::span<const std::size_t> Candidates::snapshots_of(int rank) const {
  const auto found = snapshots_.find(rank);
  return found == snapshots_.end() ? std::span<const std::size_t>() : std::span(found->second);
}

}  // namespace distdl::checkpoint
