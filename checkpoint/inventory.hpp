// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/snapshot_buffer.hpp>

// What is left of a run's snapshots in the nodes' memory and on their disks, and which of it gives back the newest
// step.
namespace distdl::checkpoint {

/// Where a rank's snapshot comes from, the best first.
enum class RestoreSource {
  memory,   ///< of the node on which that rank runs
  partner,  ///< memory of another node
  parity,   ///< worked out from the other members of its parity set
  disk      ///< local to a node
};
const char* name_of(RestoreSource source);

/// One copy of a snapshot or parity that some rank can reach.
struct Replica {
  SnapshotLabel label;  ///< of a parity: that of the rank that keeps it
  int holder = 0;       ///< rank of the present world
  std::string node;     ///< of the holder
  std::string name;     ///< by which the holder finds it
  std::size_t bytes = 0;
  bool on_disk = false;
  std::vector<int> set;            ///< of a parity: the ranks of its set, in order
  std::vector<std::size_t> sizes;  ///< and the bytes of their snapshots
  bool is_parity() const { return !set.empty(); }
};

/// Of a snapshot that is a parity: the ranks of its set and the bytes of their snapshots. Nothing if it is none. Throws
/// StorageError (corrupt) if it cannot be what it says.
struct ParitySet {
  std::vector<int> ranks;
  std::vector<std::size_t> sizes;
};
std::optional<ParitySet> parity_set_of(const Snapshot& snapshot);

std::string to_text(std::span<const Replica> replicas);
/// Throws StorageError (corrupt) for a text that to_text() did not make in a world of `ranks`.
std::vector<Replica> replicas_from(const std::string& text, int ranks);

/// How to get the snapshot of one rank of the world that saved.
struct ShardPlan {
  int rank = 0;
  RestoreSource source = RestoreSource::memory;
  std::vector<std::size_t> replicas;  ///< one; for parity those of all other members of the set and then their parities
};

struct RestorePlan {
  Step step;
  int world = 0;  ///< ranks that saved
  std::vector<ShardPlan> shards;
  Start start = {};  ///< in which they saved
};

/// The newest snapshot (moment_of) of which every rank's part can be had, from the best sources. Parts that different
/// starts wrote are never put together. `nodes[rank]`: of the present world. Nothing if there is none.
std::optional<RestorePlan> plan_restore(std::span<const Replica> replicas, std::span<const std::string> nodes);
/// Whether it is at least as new as a checkpoint on the file system: what a later start saved is newer. Where that is
/// not known (of an older distdl) the step decides.
bool is_as_new_as(const RestorePlan& plan, const Summary& checkpoint);

}  // namespace distdl::checkpoint
