// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include <distdl/base/json/numbers.hpp>
#include <distdl/checkpoint/inventory.hpp>
#include <distdl/checkpoint/multilevel/redundancy.hpp>

namespace distdl::checkpoint {
namespace {
using nlohmann::json;

template <class Number>
std::vector<Number> wholes(const json& list) {
  std::vector<Number> numbers;
  for (const json& each : list) numbers.push_back(whole<Number>(each));
  return numbers;
}

void demand_parity(bool condition, const SnapshotLabel& label, const char* problem) {
  if (!condition)
    throw StorageError(fmt::format("the parity of {} is damaged: {}", text_of(label), problem), ExitCode::corrupt);
}

/// Snapshots with equal values belong together.
using SnapshotKind = std::tuple<Start, Step, int>;  // and world
SnapshotKind snapshot_kind_of(const SnapshotLabel& label) {
  return {label.start, label.step, label.world};
}

/// The replicas of one kind.
class Candidate {
 public:
  Candidate(std::span<const Replica> replicas, std::span<const std::string> nodes, SnapshotKind kind,
            const std::vector<std::size_t>& mine)
      : replicas_(replicas), nodes_(nodes), kind_(std::move(kind)) {
    for (std::size_t i : mine) {
      const Replica& replica = replicas[i];
      if (replica.is_parity())
        parities_[replica.set].emplace(replica.label.rank, i);  // the first counts
      else
        snapshots_[replica.label.rank].push_back(i);
    }
  }

  std::optional<RestorePlan> plan() const {
    const auto& [start, step, world] = kind_;
    RestorePlan plan{step, world, {}, start};
    for (int rank = 0; rank < world; ++rank) {
      auto shard = find(rank);
      if (!shard) shard = rebuild(rank);
      if (!shard) return std::nullopt;
      plan.shards.push_back(*std::move(shard));
    }
    return plan;
  }

 private:
  RestoreSource source_of(const Replica& replica) const {
    if (replica.on_disk) return RestoreSource::disk;
    const auto rank = static_cast<std::size_t>(replica.label.rank);
    return rank < nodes_.size() && nodes_[rank] == replica.node ? RestoreSource::memory : RestoreSource::partner;
  }

  /// The best snapshot of a rank. One on disk comes after parity.
  std::optional<ShardPlan> find(int rank, bool also_disk = false) const {
    std::optional<ShardPlan> best;
    const auto found = snapshots_.find(rank);
    if (found == snapshots_.end()) return best;
    for (std::size_t i : found->second) {
      const Replica& replica = replicas_[i];
      if (replica.on_disk && !also_disk) continue;
      if (!best || source_of(replica) < best->source) best = ShardPlan{rank, source_of(replica), {i}};
    }
    return best;
  }

  std::optional<ShardPlan> rebuild(int rank) const {
    for (const auto& [set, keepers] : parities_)
      if (auto shard = rebuild(rank, set, keepers)) return shard;
    return find(rank, true);
  }

  std::optional<ShardPlan> rebuild(int rank, const std::vector<int>& set,
                                   const std::map<int, std::size_t>& keepers) const {
    if (std::find(set.begin(), set.end(), rank) == set.end()) return std::nullopt;
    std::vector<std::size_t> snapshots, parities;
    for (int member : set) {
      if (member == rank) continue;
      const auto snapshot = snapshots_.find(member);
      const auto parity = keepers.find(member);
      if (snapshot == snapshots_.end() || parity == keepers.end()) return std::nullopt;
      snapshots.push_back(snapshot->second.front());
      parities.push_back(parity->second);
    }
    snapshots.insert(snapshots.end(), parities.begin(), parities.end());
    return ShardPlan{rank, RestoreSource::parity, std::move(snapshots)};
  }

  std::span<const Replica> replicas_;
  std::span<const std::string> nodes_;
  SnapshotKind kind_;
  std::map<int, std::vector<std::size_t>> snapshots_;                ///< by rank
  std::map<std::vector<int>, std::map<int, std::size_t>> parities_;  ///< by set and keeper
};

}  // namespace

const char* name_of(RestoreSource source) {
  switch (source) {
    case RestoreSource::memory:
      return "memory of its node";
    case RestoreSource::partner:
      return "memory of another node";
    case RestoreSource::parity:
      return "parity";
    case RestoreSource::disk:
      return "a node's disk";
  }
  return "?";
}

std::string to_text(std::span<const Replica> replicas) {
  json list = json::array();
  for (const Replica& replica : replicas)
    list.push_back({replica.label.run, replica.label.rank, replica.label.world, replica.label.step.value,
                    replica.label.sequence, replica.holder, replica.node, replica.name, replica.bytes, replica.on_disk,
                    replica.set, replica.sizes, replica.label.start.number, replica.label.start.identity});
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<Replica> replicas_from(const std::string& text, int ranks) try {
  std::vector<Replica> replicas;
  for (const json& one : json::parse(text)) {
    Replica replica;
    replica.label = {
        one.at(0).get<std::string>(),    whole<int>(one.at(1)),
        whole<int>(one.at(2)),           Step(whole<std::int64_t>(one.at(3))),
        whole<std::uint64_t>(one.at(4)), {whole<std::uint64_t>(one.at(12)), whole<std::uint32_t>(one.at(13))}};
    replica.holder = whole<int>(one.at(5));
    replica.node = one.at(6).get<std::string>();
    replica.name = one.at(7).get<std::string>();
    replica.bytes = whole<std::size_t>(one.at(8));
    replica.on_disk = one.at(9).get<bool>();
    replica.set = wholes<int>(one.at(10));
    replica.sizes = wholes<std::size_t>(one.at(11));
    const std::size_t members = std::set<int>(replica.set.begin(), replica.set.end()).size();
    if (replica.holder < 0 || replica.holder >= ranks || members == 1 || members != replica.set.size() ||
        members != replica.sizes.size())
      throw StorageError(fmt::format("a rank's list of snapshots cannot be read: {} is held by rank {} of {}, a parity "
                                     "of {} ranks with {} sizes",
                                     replica.name, replica.holder, ranks, members, replica.sizes.size()),
                         ExitCode::corrupt);
    replicas.push_back(std::move(replica));
  }
  return replicas;
} catch (const json::exception& error) {
  throw StorageError(fmt::format("a rank's list of snapshots cannot be read: {}", error.what()), ExitCode::corrupt);
}

std::optional<ParitySet> parity_set_of(const Snapshot& snapshot) try {
  constexpr std::size_t kMost = std::size_t{1} << 62;
  const SnapshotLabel& label = snapshot.label;
  const auto found = snapshot.state.find(kParityKey);
  if (found == snapshot.state.end()) return std::nullopt;
  const json text = json::parse(found->second);
  ParitySet parity{wholes<int>(text.at(0)), wholes<std::size_t>(text.at(1))};
  const std::set<int> ranks(parity.ranks.begin(), parity.ranks.end());
  demand_parity(ranks.size() >= 2 && ranks.size() == parity.ranks.size() && ranks.size() == parity.sizes.size(), label,
                "its set must have two or more ranks, each with a size");
  demand_parity(*ranks.begin() >= 0 && *ranks.rbegin() < label.world && ranks.contains(label.rank), label,
                "its set has ranks outside this world");
  const std::size_t longest = *std::max_element(parity.sizes.begin(), parity.sizes.end());
  demand_parity(longest <= kMost, label, "a size is impossible");
  const auto chunk = static_cast<std::int64_t>(ParityLayout{static_cast<int>(ranks.size()), longest}.chunk());
  const bool fits = snapshot.slices.size() == 1 && snapshot.slices[0].bytes &&
                    snapshot.slices[0].dtype == tensor::DataType::byte &&
                    snapshot.slices[0].box.extent == tensor::Shape{chunk};
  demand_parity(fits, label, "its size does not match the sizes of its set");
  return parity;
} catch (const json::exception& error) {
  throw StorageError(fmt::format("the parity of {} is damaged: {}", text_of(snapshot.label), error.what()),
                     ExitCode::corrupt);
}

std::optional<RestorePlan> plan_restore(std::span<const Replica> replicas, std::span<const std::string> nodes) {
  std::map<SnapshotKind, std::vector<std::size_t>, std::greater<>> kinds;
  for (std::size_t i = 0; i < replicas.size(); ++i) kinds[snapshot_kind_of(replicas[i].label)].push_back(i);
  for (const auto& [kind, mine] : kinds)
    if (auto plan = Candidate(replicas, nodes, kind, mine).plan()) return plan;
  return std::nullopt;
}

bool is_as_new_as(const RestorePlan& plan, const Summary& checkpoint) {
  const std::uint64_t start = plan.start.number;
  if (start == 0 || checkpoint.start == 0 || start == checkpoint.start) return plan.step >= checkpoint.step;
  return start > checkpoint.start;
}

}  // namespace distdl::checkpoint
