// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include <distdl/checkpoint/multilevel/snapshot_buffer.hpp>

// What a run has left of its snapshots on the node where a tool runs: without ranks, and changing and holding nothing.
namespace distdl::checkpoint {

struct OrphanedSnapshot {
  SnapshotLabel label;
  bool is_parity = false;  ///< not a rank's snapshot, but what its parity set keeps there
  bool on_disk = false;    ///< else in memory
};

/// The snapshots of the run that owned the root last, as far as this user may see them: those in this node's memory,
/// and those in `disk`, checkpoint.disk_folder, unless that is empty. The root must be named as the run named it, since
/// its path is part of their names. Without those that do not count any more (Owner::snapshots_since). Labels are
/// checked, the tensors' bytes are not. Nothing if nobody owned the root.
std::vector<OrphanedSnapshot> orphaned_snapshots(const std::filesystem::path& root,
                                                 const std::filesystem::path& disk = {});

}  // namespace distdl::checkpoint
