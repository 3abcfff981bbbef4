// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/snapshot_buffer.hpp>

// Lists the remaining snapshots of a run in the nodes' memory and on their disks, and selects those that restore the
// newest step.
namespace distdl::checkpoint {

struct Level;

/// The source of a rank's snapshot. The lesser one is the better one.
class RestoreSource {
 public:
  /// The memory of the node on which that rank runs.
  RestoreSource() = default;
  /// A level: its copies or, with parity, what it computes from them.
  explicit RestoreSource(const Level& level);

  /// Null for the memory of the node.
  const Level* level() const;
  auto operator<=>(const RestoreSource&) const = default;  // NOLINT(modernize-use-nullptr): it is none

 private:
  int place_ = -1;  ///< in the table of levels
};
/// The source as text for users.
const char* name_of(RestoreSource source);

/// One copy of a snapshot or parity that some rank can read.
struct Replica {
  SnapshotLabel label;  ///< for parity: that of the rank that keeps it
  int holder = 0;       ///< rank of the present world that can read it
  std::string node;     ///< node of the holder
  std::string name;     ///< name by which the holder finds it
  std::size_t bytes = 0;
  const Level* level = nullptr;    ///< the level that can load it; null: it is in the holder's memory
  std::vector<int> set;            ///< for parity: the ranks of its set, in order
  std::vector<std::size_t> sizes;  ///< for parity: the bytes of their snapshots
  bool is_parity() const { return !set.empty(); }
};

/// The ranks of a parity set and the bytes of their snapshots. Returns nothing if the snapshot is not a parity. Throws
/// StorageError (corrupt) if the values are impossible.
struct ParitySet {
  std::vector<int> ranks;
  std::vector<std::size_t> sizes;
};
std::optional<ParitySet> parity_set_of(const Snapshot& snapshot);

std::string to_text(std::span<const Replica> replicas);
/// Throws StorageError (corrupt) if to_text() did not make the text in a world of `ranks`.
std::vector<Replica> replicas_from(const std::string& text, int ranks);

/// How to get the snapshot of one rank of the world that saved.
struct ShardPlan {
  int rank = 0;
  RestoreSource source = {};
  /// One; for parity, those of all other members of the set and then their parities.
  std::vector<std::size_t> replicas;
};

struct RestorePlan {
  Step step;
  int world = 0;  ///< number of ranks that saved
  std::vector<ShardPlan> shards;
  Start start = {};  ///< the start in which they saved
};

/// The newest snapshot (moment_of) of which every rank's part is available, from the best sources. Parts of different
/// starts are never combined. `nodes[rank]` is the node of a rank of the present world. Returns nothing if there is no
/// such snapshot.
std::optional<RestorePlan> plan_restore(std::span<const Replica> replicas, std::span<const std::string> nodes);
/// Whether the snapshot is at least as new as a checkpoint on the file system. A later start is newer. If the
/// checkpoint's start is unknown, because an older distdl wrote it, the step decides.
bool is_as_new_as(const RestorePlan& plan, const Summary& checkpoint);

}  // namespace distdl::checkpoint
