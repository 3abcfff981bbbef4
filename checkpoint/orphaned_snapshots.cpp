// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/disk_snapshots.hpp>
#include <distdl/checkpoint/orphaned_snapshots.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint {
namespace {
std::optional<OrphanedSnapshot> in_memory(const std::string& name, const std::string& run) try {
  const SnapshotMemory memory = SnapshotMemory::peek(name);
  const Snapshot snapshot = open_snapshot(memory.bytes());
  if (snapshot.label.run != run) return std::nullopt;
  return OrphanedSnapshot{snapshot.label, snapshot.state.contains(kParityKey), false};
} catch (const StorageError& error) {  // empty, being filled, or just removed
  log(Severity::debug, "the snapshot {} cannot be used: {}", name, error.what());
  return std::nullopt;
}
}  // namespace

std::vector<OrphanedSnapshot> orphaned_snapshots(const Path& folder, const Path& disk) {
  Path root = std::filesystem::absolute(folder).lexically_normal();  // as a Store calls it
  if (!root.has_filename()) root = root.parent_path();
  std::vector<OrphanedSnapshot> found;
  const Owner owner = owner_of(real_file_system(), root).value_or(Owner{});
  if (owner.lineage.empty()) return found;
  const std::string run = run_name(owner.lineage, root);
  for (const std::string& name : buffers_of(run))
    if (auto one = in_memory(name, run)) found.push_back(*std::move(one));
  if (!disk.empty())
    for (const auto& entry : DiskSnapshots::list(disk, run)) found.push_back({entry.label, false, true});
  std::erase_if(found, [&](const OrphanedSnapshot& one) { return one.label.start.number < owner.snapshots_since; });
  return found;
}

}  // namespace distdl::checkpoint
