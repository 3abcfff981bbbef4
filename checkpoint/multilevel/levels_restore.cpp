// SPDX-License-Identifier: Apache-2.0
// Finding what is left of snapshots, and bringing it back to the ranks of the present world.
#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include <distdl/base/clock.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/commit/agreement.hpp>
#include <distdl/checkpoint/fit.hpp>
#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/multilevel/redundancy.hpp>

namespace distdl::checkpoint {
namespace {
using nlohmann::json;

void demand_label(const SnapshotLabel& found, const Replica& replica) {
  require<StorageError>(found == replica.label, "the snapshot {} has been replaced: {} was expected, {} was found",
                        replica.name, text_of(replica.label),
                        found.run == replica.label.run ? text_of(found) : found.run);
}

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

std::optional<Replica> Levels::look_at(const std::string& name) try {
  const SnapshotMemory memory = SnapshotMemory::open(name);
  const Snapshot snapshot = open_snapshot(memory.bytes());
  if (snapshot.label.run != setup_.run) return std::nullopt;
  Replica replica{snapshot.label, group_.rank(), setup_.place.node, name, snapshot.bytes, false, {}, {}};
  if (auto parity = parity_set_of(snapshot)) {
    replica.set = std::move(parity->ranks);
    replica.sizes = std::move(parity->sizes);
  }
  return replica;
} catch (const StorageError& error) {
  pass_on_shortage(error);
  log(Severity::debug, "the snapshot {} cannot be used: {}", name, error.what());
  return std::nullopt;
}

/// Shared out among the node's ranks, so that all of them verify.
std::vector<Replica> Levels::replicas_of_node() {
  std::vector<Replica> replicas;
  if (!is_first_of_node()) return replicas;
  for (const std::string& name : buffers_of(setup_.memory))
    if (auto replica = look_at(name)) replicas.push_back(*std::move(replica));
  if (disk_)
    for (auto& [name, label, bytes] : disk_->list())
      replicas.push_back({label, 0, setup_.place.node, name, bytes, true, {}, {}});
  std::vector<int> ranks;
  for (int rank = 0; rank < group_.size(); ++rank)
    if (nodes_[static_cast<std::size_t>(rank)] == setup_.place.node) ranks.push_back(rank);
  for (std::size_t i = 0; i < replicas.size(); ++i) replicas[i].holder = ranks[i % ranks.size()];
  return replicas;
}

/// Verifies it the first time: each process for itself, since one on disk is read anew.
Levels::Opened& Levels::open(const Replica& replica) {
  if (const auto found = opened_.find(replica.name); found != opened_.end()) return found->second;
  SnapshotMemory memory = replica.on_disk ? disk_->load(replica.name) : SnapshotMemory::open(replica.name);
  Snapshot snapshot = open_snapshot(memory.bytes());
  demand_label(snapshot.label, replica);
  verify(snapshot);
  return opened_.emplace(replica.name, Opened{std::move(memory), std::move(snapshot)}).first->second;
}

bool Levels::is_whole(const Replica& replica) try {
  open(replica);
  return true;
} catch (const StorageError& error) {
  pass_on_shortage(error);
  log(Severity::warning, "the snapshot of rank {}, step {}, in {} cannot be used: {}", replica.label.rank,
      replica.label.step, replica.on_disk ? "a local disk" : "memory", error.what());
  return false;
}

std::optional<RestorePlan> Levels::find() {
  opened_.clear();
  replicas_.clear();
  for (const std::string& text : agree(group_, "look for snapshots", [&] { return to_text(replicas_of_node()); }))
    for (Replica& replica : replicas_from(text, group_.size())) replicas_.push_back(std::move(replica));
  while (auto plan = plan_restore(replicas_, nodes_)) {
    std::set<std::size_t> used;
    for (const ShardPlan& shard : plan->shards) used.insert(shard.replicas.begin(), shard.replicas.end());
    json damaged = json::array();
    for (std::size_t i : used)
      if (replicas_[i].holder == group_.rank() && !is_whole(replicas_[i])) damaged.push_back(i);
    std::set<std::size_t, std::greater<>> gone;
    for (const std::string& text : group_.all_gather(damaged.dump()))
      for (const json& i : json::parse(text)) gone.insert(i.get<std::size_t>());
    if (gone.empty()) return plan;
    for (std::size_t i : gone) replicas_.erase(replicas_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return std::nullopt;
}

/// Adds up, at the rank that rebuilds, the chunk of the lost snapshot that `keeper`'s parity contains.
void Levels::add_chunks(const ShardPlan& shard, int keeper, std::span<std::byte> sum) {
  const Replica& first = replicas_[shard.replicas.back()];
  const std::vector<int>& set = first.set;
  const auto place = [&](int rank) { return static_cast<int>(std::find(set.begin(), set.end(), rank) - set.begin()); };
  const ParityLayout layout{static_cast<int>(set.size()), *std::max_element(first.sizes.begin(), first.sizes.end())};
  const int builder = replicas_[shard.replicas[0]].holder;
  std::vector<Group::Outgoing> out;
  std::vector<Group::Incoming> in;
  std::vector<std::vector<std::byte>> arrived;
  const auto take = [&](const Replica& replica, std::size_t bytes,
                        const std::function<std::span<const std::byte>()>& part) {
    if (bytes == 0) return;
    if (replica.holder == group_.rank() && builder == group_.rank())
      add_parity(sum, part());
    else if (replica.holder == group_.rank())
      out.push_back({builder, part()});
    else if (builder == group_.rank())
      in.push_back({replica.holder, arrived.emplace_back(bytes)});
  };
  for (std::size_t i : shard.replicas) {
    const Replica& replica = replicas_[i];
    if (replica.is_parity()) {
      if (replica.label.rank == keeper)
        take(replica, layout.chunk(),
             [&] { return std::span(open(replica).snapshot.slices.at(0).bytes, layout.chunk()); });
    } else if (replica.label.rank != keeper) {
      const std::size_t chunk = layout.chunk_of(place(replica.label.rank), place(keeper));
      const std::size_t begin = std::min(replica.bytes, chunk * layout.chunk());
      take(replica, std::min(layout.chunk(), replica.bytes - begin),
           [&, chunk] { return chunk_of(open(replica).memory.bytes().first(replica.bytes), layout, chunk); });
    }
  }
  group_.exchange_buffers(out, in);
  for (const auto& bytes : arrived) add_parity(sum, bytes);
}

Replica Levels::rebuild(const ShardPlan& shard) {
  const Replica& parity = replicas_[shard.replicas.back()];
  const auto lost =
      static_cast<std::size_t>(std::find(parity.set.begin(), parity.set.end(), shard.rank) - parity.set.begin());
  const ParityLayout layout{static_cast<int>(parity.set.size()),
                            *std::max_element(parity.sizes.begin(), parity.sizes.end())};
  const bool mine = replicas_[shard.replicas[0]].holder == group_.rank();
  std::vector<std::byte> whole(mine ? layout.chunk() * (parity.set.size() - 1) : 0);
  for (int keeper : parity.set) {
    if (keeper == shard.rank) continue;
    const auto place = static_cast<int>(std::find(parity.set.begin(), parity.set.end(), keeper) - parity.set.begin());
    const std::size_t chunk = layout.chunk_of(static_cast<int>(lost), place);
    add_chunks(shard, keeper,
               mine ? std::span(whole).subspan(chunk * layout.chunk(), layout.chunk()) : std::span(whole));
  }
  const auto built = agree(group_, fmt::format("rebuild the snapshot of rank {} from parity", shard.rank), [&] {
    if (!mine) return std::string();
    SnapshotMemory memory = SnapshotMemory::create(setup_.memory, shard.rank, parity.sizes[lost]);
    std::copy_n(whole.begin(), parity.sizes[lost], memory.writable().begin());
    copies_.push_back(std::move(memory));  // before what may throw: it is to be removed some time
    const auto replica = look_at(copies_.back().name());
    require<StorageError>(replica && replica->label.rank == shard.rank, "the result is not a snapshot of that rank");
    open(*replica);
    return to_text({&*replica, 1});
  });
  return replicas_from(built[static_cast<std::size_t>(replicas_[shard.replicas[0]].holder)], group_.size()).at(0);
}

/// The contents of the snapshots as their holders report them; without the bytes.
std::vector<Manifest> Levels::announce(const std::vector<Replica>& served) {
  const auto texts = agree(group_, "list the contents of the snapshots", [&] {
    json mine = json::array();
    for (const Replica& replica : served)
      if (replica.holder == group_.rank()) mine.push_back(contents(open(replica).snapshot));
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
  std::set<std::string> nodes;
  for (std::size_t rank = 0; rank < nodes_.size(); ++rank)
    if (needed_by[rank] && nodes_[rank] != from.node) nodes.insert(nodes_[rank]);
  std::vector<Group::Outgoing> out;
  std::vector<Group::Incoming> in;
  const auto texts = agree(group_, "allocate memory for snapshots of other nodes", [&] {
    for (const std::string& node : nodes)
      if (from.holder == group_.rank())
        out.push_back({first_of_node(node), open(from).memory.bytes().first(from.bytes)});
    if (!nodes.contains(setup_.place.node) || !is_first_of_node()) return std::string();
    copies_.push_back(SnapshotMemory::create(setup_.memory, from.label.rank, from.bytes));
    in.push_back({from.holder, copies_.back().writable().first(from.bytes)});
    Replica replica = from;
    replica.node = setup_.place.node;
    replica.name = copies_.back().name();
    replica.on_disk = false;
    return to_text({&replica, 1});
  });
  group_.exchange_buffers(out, in);
  agree(group_, "copy snapshots from other nodes", [&] {  // before others of the node open it
    if (!in.empty()) verify(open_snapshot(in[0].bytes));
    return std::string();
  });
  if (from.node == setup_.place.node) here.push_back(from);
  for (const std::string& text : texts)
    if (!text.empty())
      for (Replica& replica : replicas_from(text, group_.size()))
        if (replica.node == setup_.place.node) here.push_back(std::move(replica));
}

void Levels::fill(const Target& target, const std::vector<Replica>& here) {
  const std::size_t element = tensor::size_of(target.dtype);
  std::size_t filled = 0;
  for (const Replica& replica : here)
    for (const Slice& slice : open(replica).snapshot.slices) {
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

/// To be called after the last byte was copied. The owner of a buffer may still run; it clears the label before it
/// fills the buffer again.
void Levels::check_still_there(const std::vector<Replica>& here) {
  for (const Replica& replica : here) demand_label(open_snapshot(open(replica).memory.bytes()).label, replica);
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
    served.push_back(shard.source == RestoreSource::parity ? rebuild(shard) : replicas_[shard.replicas[0]]);
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
    check_still_there(here);
    return std::string();
  });
  state = parts.empty() ? State{} : parts[0].state;
  opened_.clear();
  return reports;
}

}  // namespace distdl::checkpoint
