// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/multilevel/memory_copies.hpp>
#include <distdl/checkpoint/multilevel/node_snapshots.hpp>

namespace distdl::checkpoint {
namespace {

void demand_label(const SnapshotLabel& found, const Replica& replica) {
  require<StorageError>(found == replica.label, "the snapshot {} has been replaced: {} was expected, {} was found",
                        replica.name, text_of(replica.label),
                        found.run == replica.label.run ? text_of(found) : found.run);
}

}  // namespace

std::optional<Replica> NodeSnapshots::look_at(const std::string& name) const try {
  const SnapshotMemory memory = SnapshotMemory::open(name);
  const Snapshot snapshot = open_snapshot(memory.bytes());
  if (snapshot.label.run != ranks_.setup.run) return std::nullopt;
  Replica replica{snapshot.label, ranks_.group.rank(), ranks_.setup.place.node, name, snapshot.bytes, nullptr, {}, {}};
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

std::vector<Replica> NodeSnapshots::list() {
  std::vector<Replica> replicas;
  if (!ranks_.is_first_of_node()) return replicas;
  for (const std::string& name : buffers_of(ranks_.setup.memory))
    if (auto replica = look_at(name)) replicas.push_back(*std::move(replica));
  for (const auto& level : copies_)
    for (Replica& replica : level->list()) replicas.push_back(std::move(replica));
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks_.group.size(); ++rank)
    if (ranks_.nodes[static_cast<std::size_t>(rank)] == ranks_.setup.place.node) ranks.push_back(rank);
  for (std::size_t i = 0; i < replicas.size(); ++i) replicas[i].holder = ranks[i % ranks.size()];
  return replicas;
}

SnapshotMemory NodeSnapshots::load(const Replica& replica) const {
  for (const auto& copies : copies_)
    if (&copies->level() == replica.level) return copies->load(replica.name);
  return SnapshotMemory::open(replica.name);
}

NodeSnapshots::Opened& NodeSnapshots::open(const Replica& replica) {
  if (const auto found = opened_.find(replica.name); found != opened_.end()) return found->second;
  SnapshotMemory memory = load(replica);
  Snapshot snapshot = open_snapshot(memory.bytes());
  demand_label(snapshot.label, replica);
  verify(snapshot);
  return opened_.emplace(replica.name, Opened{std::move(memory), std::move(snapshot)}).first->second;
}

bool NodeSnapshots::is_whole(const Replica& replica) try {
  open(replica);
  return true;
} catch (const StorageError& error) {
  pass_on_shortage(error);
  log(Severity::warning, "the snapshot of rank {}, step {}, in {} cannot be used: {}", replica.label.rank,
      replica.label.step, replica.level ? replica.level->medium : "memory", error.what());
  return false;
}

void NodeSnapshots::check_still_there(const Replica& replica) {
  demand_label(open_snapshot(open(replica).memory.bytes()).label, replica);
}

SnapshotMemory& NodeSnapshots::allocate(int rank, std::size_t bytes) {
  return fetched_.emplace_back(SnapshotMemory::create(ranks_.setup.memory, rank, bytes));
}

void NodeSnapshots::remove_fetched() noexcept {
  remove_all(fetched_);
}

void NodeSnapshots::keep_only(const IsWanted& is_wanted) {
  checkpoint::keep_only(fetched_, is_wanted);
}

void NodeSnapshots::remove_orphans(const IsWanted& is_wanted) const {
  if (!ranks_.is_first_of_node()) return;
  for (const std::string& name : buffers_of(ranks_.setup.memory))
    if (const auto replica = look_at(name); !replica || !is_wanted(replica->label)) remove_orphan(name);
}

}  // namespace distdl::checkpoint
