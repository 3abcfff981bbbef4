// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include <distdl/checkpoint/snapshot_buffer.hpp>

// The snapshots that a run has left on the node where a tool runs. Finding them needs no ranks, and changes or locks
// nothing.
namespace distdl::checkpoint {

struct OrphanedSnapshot {
  SnapshotLabel label;
  bool is_parity = false;  ///< the parity of a set that the rank keeps, not the rank's own snapshot
  bool on_disk = false;    ///< on the node's disk; else in memory
};

/// The readable snapshots of the last run that owned the root. They are in this node's memory and in the folder `disk`
/// (checkpoint.disk_folder), unless that is empty. `root` must be the path that the run used, because it is part of
/// their names. Snapshots that Owner::snapshots_since excludes are left out. Labels are checked, but the tensors' bytes
/// are not. Empty if the root has no owner.
std::vector<OrphanedSnapshot> orphaned_snapshots(const std::filesystem::path& root,
                                                 const std::filesystem::path& disk = {});

}  // namespace distdl::checkpoint
