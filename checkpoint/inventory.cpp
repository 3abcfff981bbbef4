// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include <distdl/base/json/numbers.hpp>
#include <distdl/checkpoint/inventory.hpp>
#include <distdl/checkpoint/multilevel/candidates.hpp>
#include <distdl/checkpoint/multilevel/level.hpp>
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

}  // namespace

RestoreSource::RestoreSource(const Level& level) : place_(static_cast<int>(place_of(level))) {}

const Level* RestoreSource::level() const {
  return place_ < 0 ? nullptr : levels()[static_cast<std::size_t>(place_)];
}

const char* name_of(RestoreSource source) {
  return source.level() ? source.level()->source : "memory of its node";
}

std::string to_text(std::span<const Replica> replicas) {
  json list = json::array();
  for (const Replica& replica : replicas)
    list.push_back({replica.label.run, replica.label.rank, replica.label.world, replica.label.step.value,
                    replica.label.sequence, replica.holder, replica.node, replica.name, replica.bytes,
                    replica.level ? replica.level->name : "", replica.set, replica.sizes, replica.label.start.number,
                    replica.label.start.identity});
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
    const auto level = one.at(9).get<std::string>();
    replica.level = find_level(level);
    replica.set = wholes<int>(one.at(10));
    replica.sizes = wholes<std::size_t>(one.at(11));
    if (!replica.level && !level.empty())
      throw StorageError(fmt::format("a rank's list of snapshots cannot be read: {} is kept by an unknown level \"{}\"",
                                     replica.name, level),
                         ExitCode::corrupt);
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
    if (auto plan = Candidates(replicas, nodes, mine).plan()) return plan;
  return std::nullopt;
}

bool is_as_new_as(const RestorePlan& plan, const Summary& checkpoint) {
  const std::uint64_t start = plan.start.number;
  if (start == 0 || checkpoint.start == 0 || start == checkpoint.start) return plan.step >= checkpoint.step;
  return start > checkpoint.start;
}

}  // namespace distdl::checkpoint
