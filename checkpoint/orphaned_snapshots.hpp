// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include <distdl/checkpoint/snapshot_buffer.hpp>

// The snapshots that a run has left on the node where a tool runs. Needs no ranks, and changes and locks nothing.
namespace distdl::checkpoint {

struct OrphanedSnapshot {
  SnapshotLabel label;
  bool is_parity = false;  ///< not a rank's snapshot, but what its parity set keeps there
  bool on_disk = false;    ///< else in memory
};

/// The snapshots of the run that owned the root last, as far as this user may read them. They lie in this node's memory
/// and, unless it is empty, in `disk`, checkpoint.disk_folder. `root` must be the path that the run used, since it is
/// part of their names. Snapshots that Owner::snapshots_since excludes are left out. Labels are checked, the tensors'
/// bytes are not. Nothing if the root has no owner.
std::vector<OrphanedSnapshot> orphaned_snapshots(const std::filesystem::path& root,
                                                 const std::filesystem::path& disk = {});

}  // namespace distdl::checkpoint
