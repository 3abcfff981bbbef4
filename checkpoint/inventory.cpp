// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include <distdl/checkpoint/inventory.hpp>

namespace distdl::checkpoint {
namespace {
using nlohmann::json;

/// What belongs together.
using Kind = std::tuple<Start, Step, int>;  // and world
Kind kind_of(const SlotLabel& label) {
  return {label.start, label.step, label.world};
}

/// The items of one kind.
class Candidate {
 public:
  Candidate(std::span<const Item> items, std::span<const std::string> nodes, const Kind& kind)
      : items_(items), nodes_(nodes), kind_(kind) {
    for (std::size_t i = 0; i < items.size(); ++i)
      if (kind_of(items[i].label) == kind) mine_.push_back(i);
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
  Source source_of(const Item& item) const {
    if (item.on_disk) return Source::disk;
    const auto rank = static_cast<std::size_t>(item.label.rank);
    return rank < nodes_.size() && nodes_[rank] == item.node ? Source::memory : Source::partner;
  }

  /// The best snapshot of a rank. One on disk comes after parity.
  std::optional<ShardPlan> find(int rank, bool also_disk = false) const {
    std::optional<ShardPlan> best;
    for (std::size_t i : mine_) {
      const Item& item = items_[i];
      if (item.is_parity() || item.label.rank != rank || (item.on_disk && !also_disk)) continue;
      if (!best || source_of(item) < best->source) best = ShardPlan{rank, source_of(item), {i}};
    }
    return best;
  }

  std::optional<ShardPlan> rebuild(int rank) const {
    for (std::size_t i : mine_) {
      const auto& set = items_[i].set;
      if (std::find(set.begin(), set.end(), rank) == set.end()) continue;
      if (auto shard = rebuild(rank, set)) return shard;
    }
    return find(rank, true);
  }

  std::optional<ShardPlan> rebuild(int rank, const std::vector<int>& set) const {
    ShardPlan shard{rank, Source::parity, {}};
    for (bool parity : {false, true})
      for (int member : set) {
        if (member == rank) continue;
        const auto found = std::find_if(mine_.begin(), mine_.end(), [&](std::size_t i) {
          return items_[i].label.rank == member && (parity ? items_[i].set == set : !items_[i].is_parity());
        });
        if (found == mine_.end()) return std::nullopt;
        shard.items.push_back(*found);
      }
    return shard;
  }

  std::span<const Item> items_;
  std::span<const std::string> nodes_;
  Kind kind_;
  std::vector<std::size_t> mine_;
};

}  // namespace

const char* name_of(Source source) {
  switch (source) {
    case Source::memory:
      return "memory of its node";
    case Source::partner:
      return "memory of another node";
    case Source::parity:
      return "parity";
    case Source::disk:
      return "a node's disk";
  }
  return "?";
}

std::string to_text(std::span<const Item> items) {
  json list = json::array();
  for (const Item& item : items)
    list.push_back({item.label.run, item.label.rank, item.label.world, item.label.step.value, item.label.sequence,
                    item.holder, item.node, item.name, item.bytes, item.on_disk, item.set, item.sizes,
                    item.label.start.number, item.label.start.identity});
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<Item> items_from(const std::string& text) try {
  std::vector<Item> items;
  for (const json& one : json::parse(text)) {
    Item item;
    item.label = {one.at(0), one.at(1),
                  one.at(2), Step(one.at(3).get<std::int64_t>()),
                  one.at(4), {one.at(12).get<std::uint64_t>(), one.at(13).get<std::uint32_t>()}};
    item.holder = one.at(5);
    item.node = one.at(6);
    item.name = one.at(7);
    item.bytes = one.at(8);
    item.on_disk = one.at(9);
    item.set = one.at(10).get<std::vector<int>>();
    item.sizes = one.at(11).get<std::vector<std::size_t>>();
    items.push_back(std::move(item));
  }
  return items;
} catch (const json::exception& error) {
  throw StorageError(fmt::format("a rank's list of snapshots cannot be read: {}", error.what()), ExitCode::corrupt);
}

std::optional<RestorePlan> plan_restore(std::span<const Item> items, std::span<const std::string> nodes) {
  std::set<Kind, std::greater<>> kinds;
  for (const Item& item : items) kinds.insert(kind_of(item.label));
  for (const Kind& kind : kinds)
    if (auto plan = Candidate(items, nodes, kind).plan()) return plan;
  return std::nullopt;
}

bool is_as_new_as(const RestorePlan& plan, const Summary& checkpoint) {
  const std::uint64_t start = plan.start.number;
  if (start == 0 || checkpoint.start == 0 || start == checkpoint.start) return plan.step >= checkpoint.step;
  return start > checkpoint.start;
}

}  // namespace distdl::checkpoint
