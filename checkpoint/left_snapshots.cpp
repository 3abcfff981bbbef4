// SPDX-License-Identifier: Apache-2.0
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/left_snapshots.hpp>
#include <distdl/checkpoint/multilevel/buffer_memory.hpp>
#include <distdl/checkpoint/multilevel/disk_snapshots.hpp>
#include <distdl/checkpoint/ownership.hpp>

namespace distdl::checkpoint {
namespace {
std::optional<LeftSnapshot> in_memory(const std::string& name, const std::string& run) try {
  const SlotMemory memory = SlotMemory::peek(name);
  const Snapshot snapshot = open_slot(memory.bytes());
  if (snapshot.label.run != run) return std::nullopt;
  return LeftSnapshot{snapshot.label, snapshot.state.contains(kParityKey), false};
} catch (const StorageError& error) {  // empty, being filled, or just removed
  log(Severity::debug, "the snapshot {} is of no use: {}", name, error.what());
  return std::nullopt;
}
}  // namespace

std::vector<LeftSnapshot> left_snapshots(const Path& folder, const Path& disk) {
  Path root = std::filesystem::absolute(folder).lexically_normal();  // as a Store calls it
  if (!root.has_filename()) root = root.parent_path();
  std::vector<LeftSnapshot> found;
  const Owner owner = owner_of(real_file_system(), root).value_or(Owner{});
  if (owner.lineage.empty()) return found;
  const std::string run = run_name(owner.lineage, root);
  for (const std::string& name : slots_of(run))
    if (auto one = in_memory(name, run)) found.push_back(*std::move(one));
  if (!disk.empty())
    for (const auto& entry : DiskSlots::list(disk, run)) found.push_back({entry.label, false, true});
  std::erase_if(found, [&](const LeftSnapshot& one) { return one.label.start.number < owner.snapshots_since; });
  return found;
}

}  // namespace distdl::checkpoint
