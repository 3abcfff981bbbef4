// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <distdl/checkpoint/multilevel/level.hpp>

namespace distdl::checkpoint {

/// The run's snapshots that the ranks of this node can read: in the node's memory and from its levels, with those that
/// came from other nodes during a restore.
class NodeSnapshots {
 public:
  struct Opened {
    SnapshotMemory memory;
    Snapshot snapshot;
  };

  /// The references must outlive this object. `copies`: those of each level that has any on this rank.
  NodeSnapshots(const Ranks& ranks, const std::vector<std::unique_ptr<LevelCopies>>& copies)
      : ranks_(ranks), copies_(copies) {}

  const Ranks& ranks() const noexcept { return ranks_; }
  /// The replicas on this node, with their holders: each is verified by one of the node's ranks. Empty unless this is
  /// the first rank of its node.
  std::vector<Replica> list();
  /// The replica in this node's memory with that name. Returns nothing if it cannot be used, or is of another run.
  std::optional<Replica> look_at(const std::string& name) const;
  /// Reads and verifies a replica the first time: each process for itself, because one that is not in memory is read
  /// anew. Throws StorageError.
  Opened& open(const Replica& replica);
  /// True if open() succeeds. Logs the reason otherwise.
  bool is_whole(const Replica& replica);
  /// Throws StorageError if an open replica has been replaced. To be called after the last byte was copied: the owner
  /// of a buffer may still run, and clears the label before it fills the buffer again.
  void check_still_there(const Replica& replica);
  /// Closes all open replicas.
  void close() { opened_.clear(); }

  /// Memory on this node for the snapshot of a rank that comes from other nodes. Throws StorageError.
  SnapshotMemory& allocate(int rank, std::size_t bytes);
  /// Removes the snapshots that came from other nodes.
  void remove_fetched() noexcept;
  /// Removes those that came from other nodes and are not wanted.
  void keep_only(const IsWanted& is_wanted);
  /// Removes the run's snapshots in this node's memory that are not wanted, unless a living process holds them. Does
  /// nothing unless this is the first rank of its node.
  void remove_orphans(const IsWanted& is_wanted) const;

 private:
  SnapshotMemory load(const Replica& replica) const;

  const Ranks& ranks_;
  const std::vector<std::unique_ptr<LevelCopies>>& copies_;
  std::vector<SnapshotMemory> fetched_;
  std::map<std::string, Opened> opened_;  ///< by name
};

}  // namespace distdl::checkpoint
