// SPDX-License-Identifier: Apache-2.0
// Finding what is left of snapshots, and bringing it back to the ranks of the present world.
#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/checkpoint/fit.hpp>
#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/multilevel/level.hpp>
#include <distdl/checkpoint/multilevel/node_snapshots.hpp>

namespace distdl::checkpoint {
namespace {
using nlohmann::json;

std::size_t elements(const tensor::Box& box) {
  return static_cast<std::size_t>(tensor::element_count(box.extent));
}

/// Returns a snapshot's contents without its bytes: as a manifest, which can be sent.
std::string contents(const Snapshot& snapshot) {
  Manifest manifest;
  manifest.step = snapshot.label.step;
  manifest.world_size = snapshot.label.world;
  manifest.files.push_back({"node0000.h5", 0, 0});
  manifest.state = snapshot.state;
  for (const Slice& slice : snapshot.slices) {
    StoredTensor stored{{slice.name, slice.dtype, slice.shape}, {}};
    if (slice.bytes) stored.boxes.push_back({slice.box, 0, 0, {}});
    manifest.tensors.push_back(std::move(stored));
  }
  return to_text(manifest);
}

}  // namespace

std::optional<RestorePlan> Levels::find() {
  node_->close();
  replicas_.clear();
  for (const std::string& text : agree(group_, "look for snapshots", [&] { return to_text(node_->list()); }))
    for (Replica& replica : replicas_from(text, group_.size())) replicas_.push_back(std::move(replica));
  while (auto plan = plan_restore(replicas_, ranks_->nodes)) {
    std::set<std::size_t> used;
    for (const ShardPlan& shard : plan->shards) used.insert(shard.replicas.begin(), shard.replicas.end());
    json damaged = json::array();
    for (std::size_t i : used)
      if (replicas_[i].holder == group_.rank() && !node_->is_whole(replicas_[i])) damaged.push_back(i);
    std::set<std::size_t, std::greater<>> gone;
    for (const std::string& text : group_.all_gather(damaged.dump()))
      for (const json& i : json::parse(text)) gone.insert(i.get<std::size_t>());
    if (gone.empty()) return plan;
    for (std::size_t i : gone) replicas_.erase(replicas_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return std::nullopt;
}

Replica Levels::fetch(const ShardPlan& shard) {
  const Level* const level = shard.source.level();
  if (level && level->rebuild) return level->rebuild(*node_, shard, replicas_);
  return replicas_[shard.replicas[0]];
}

/// The contents of the snapshots as their holders report them; without the bytes.
std::vector<Manifest> Levels::announce(const std::vector<Replica>& served) {
  const auto texts = agree(group_, "list the contents of the snapshots", [&] {
    json mine = json::array();
    for (const Replica& replica : served)
      if (replica.holder == group_.rank()) mine.push_back(contents(node_->open(replica).snapshot));
    return mine.dump(-1, ' ', false, json::error_handler_t::replace);
  });
  std::vector<json> lists;
  lists.reserve(texts.size());
  for (const std::string& text : texts) lists.push_back(json::parse(text));
  std::vector<std::size_t> next(lists.size());
  std::vector<Manifest> all;
  for (const Replica& replica : served) {
    const auto holder = static_cast<std::size_t>(replica.holder);
    all.push_back(
        parse_manifest(lists[holder].at(next[holder]++).get<std::string>(), "a rank's list of a snapshot's contents"));
  }
  return all;
}

/// The tensors that the ranks want must be exactly those in the snapshots, as with checkpoints.
void Levels::check_fit(Step step, const Summary& all, std::span<const Target> targets) {
  const auto refuse = [step](const Fit& fit) {
    return StorageError(fmt::format("the snapshots of step {} do not fit this model: {}", step, problem_of(fit)),
                        ExitCode::incompatible);
  };
  const auto wanted = agree(group_, "compare the snapshots with the model", [&] {
    Fit mine = fit(all, targets);
    std::string flags;
    for (const TensorEntry& entry : all.tensors)
      flags += std::binary_search(mine.unused.begin(), mine.unused.end(), entry.name) ? '0' : '1';
    mine.unused.clear();  // others may want these
    if (!mine.exact()) throw refuse(mine);
    return flags;
  });
  Fit together;
  for (std::size_t i = 0; i < all.tensors.size(); ++i)
    if (std::all_of(wanted.begin(), wanted.end(), [i](const std::string& flags) { return flags.at(i) == '0'; }))
      together.unused.push_back(all.tensors[i].name);
  if (!together.exact()) throw refuse(together);
}

/// Whether a part of what this rank wants lies in it.
static bool is_needed(const Manifest& part, std::span<const Target> targets) {
  for (const StoredTensor& stored : part.tensors)
    for (const StoredBox& box : stored.boxes)
      for (const Target& target : targets)
        if (stored.entry.name == target.name && intersection(box.box, target.box)) return true;
  return false;
}

/// Copies a snapshot to the first rank of each node that needs it and does not have it. Afterwards `here` lists the
/// replicas on this node.
void Levels::deliver(const Replica& from, const std::vector<bool>& needed_by, std::vector<Replica>& here) {
  const std::string& own_node = ranks_->setup.place.node;
  std::set<std::string> nodes;
  for (std::size_t rank = 0; rank < ranks_->nodes.size(); ++rank)
    if (needed_by[rank] && ranks_->nodes[rank] != from.node) nodes.insert(ranks_->nodes[rank]);
  std::vector<Group::Outgoing> out;
  std::vector<Group::Incoming> in;
  const auto texts = agree(group_, "allocate memory for snapshots of other nodes", [&] {
    for (const std::string& node : nodes)
      if (from.holder == group_.rank())
        out.push_back({ranks_->first_of_node(node), node_->open(from).memory.bytes().first(from.bytes)});
    if (!nodes.contains(own_node) || !ranks_->is_first_of_node()) return std::string();
    SnapshotMemory& memory = node_->allocate(from.label.rank, from.bytes);
    in.push_back({from.holder, memory.writable().first(from.bytes)});
    Replica replica = from;
    replica.node = own_node;
    replica.name = memory.name();
    replica.level = nullptr;
    return to_text({&replica, 1});
  });
  group_.exchange_buffers(out, in);
  agree(group_, "copy snapshots from other nodes", [&] {  // before others of the node open it
    if (!in.empty()) verify(open_snapshot(in[0].bytes));
    return std::string();
  });
  if (from.node == own_node) here.push_back(from);
  for (const std::string& text : texts)
    if (!text.empty())
      for (Replica& replica : replicas_from(text, group_.size()))
        if (replica.node == own_node) here.push_back(std::move(replica));
}

void Levels::fill(const Target& target, const std::vector<Replica>& here) {
  const std::size_t element = tensor::size_of(target.dtype);
  std::size_t filled = 0;
  for (const Replica& replica : here)
    for (const Slice& slice : node_->open(replica).snapshot.slices) {
      if (slice.name != target.name || !slice.bytes) continue;
      for_each_range(slice.box, target.box, [&](const ElementRange& range) {
        std::copy_n(slice.bytes + static_cast<std::size_t>(range.from) * element,
                    static_cast<std::size_t>(range.count) * element,
                    target.bytes + static_cast<std::size_t>(range.to) * element);
        filled += static_cast<std::size_t>(range.count);
      });
    }
  if (filled != elements(target.box))
    throw StorageError(
        fmt::format("the snapshots have {} of {} elements of tensor \"{}\"", filled, elements(target.box), target.name),
        ExitCode::incompatible);
}

std::vector<ShardReport> Levels::restore(const RestorePlan& plan, std::span<const Target> targets, State& state) {
  return restore_what_is_there(
      plan, [&](const Summary&) { return std::vector<Target>(targets.begin(), targets.end()); }, state);
}

std::vector<ShardReport> Levels::restore_what_is_there(const RestorePlan& plan, const TargetsOf& targets_of,
                                                       State& state) {
  std::vector<ShardReport> reports;
  std::vector<Replica> served, here;
  for (const ShardPlan& shard : plan.shards) {
    Stopwatch watch;
    served.push_back(fetch(shard));
    reports.push_back({shard.rank, shard.source, watch.seconds()});
  }
  const auto parts = announce(served);
  const Summary all = summary_of(join(parts), {});
  const auto targets = targets_of(all);
  check_fit(plan.step, all, targets);
  std::string needs;
  for (const Manifest& part : parts) needs += is_needed(part, targets) ? '1' : '0';
  const auto all_needs = group_.all_gather(needs);
  for (std::size_t s = 0; s < served.size(); ++s) {
    Stopwatch watch;
    std::vector<bool> needed_by;
    needed_by.reserve(all_needs.size());
    for (const std::string& one : all_needs) needed_by.push_back(one.at(s) == '1');
    deliver(served[s], needed_by, here);
    reports[s].seconds += watch.seconds();
  }
  agree(group_, "read the snapshots", [&] {
    for (const Target& target : targets) fill(target, here);
    for (const Replica& replica : here) node_->check_still_there(replica);
    return std::string();
  });
  state = parts.empty() ? State{} : parts[0].state;
  node_->close();
  return reports;
}

}  // namespace distdl::checkpoint
