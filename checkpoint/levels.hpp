// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/disk_snapshots.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/checkpoint/inventory.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>

namespace distdl::checkpoint {

struct Manifest;

/// Where a rank runs.
struct Place {
  std::string node;    ///< ranks with equal names see the same memory and the same local disk
  std::string domain;  ///< what fails as one, if that is more than the node
};

/// How snapshots outlive what they were taken on, beside the checkpoints on the parallel file system. See
/// docs/checkpoint-format.md, "Levels".
struct Protection {
  bool partner = false;  ///< a copy in the memory of another failure domain: any one domain may be lost
  bool parity = false;   ///< XOR over a set of ranks of different domains: one domain of each set may be lost
  bool disk = false;     ///< a copy on the node's own disk: all processes, and the power, may be lost
};

struct ShardReport {
  int rank = 0;  ///< of the world that saved
  RestoreSource source = RestoreSource::memory;
  double seconds = 0;  ///< until its bytes lay on every node that needs them
};

/// The levels above the file system. All calls are collective; errors are StorageError, on all ranks alike.
class Levels {
 public:
  struct Setup {
    std::string run;     ///< as in SnapshotLabel
    std::string memory;  ///< name of the run's buffers in this node's memory: as `run`, unless a test simulates nodes
    Place place;
    Protection used = {true, true, false};  ///< kinds that are made some time: until then older ones stay
    int parity_set = 8;                     ///< members of a set, at most; at least 3
    std::filesystem::path disk;             ///< folder of a local disk, or empty
  };
  /// `group` and `files` must outlive this object.
  Levels(Group& group, FileSystem& files, Setup setup);

  /// Names the ranks that have no partner or no parity although Setup::used asks for it, and a remedy.
  std::vector<std::string> gaps() const;
  /// Protects each rank's sealed buffer as `how` says; all buffers are of the same step. On return the copies exist and
  /// older ones of the same kind are removed. Kinds that need more failure domains than there are get skipped. If this
  /// throws, the older copies still exist.
  void protect(std::span<const std::byte> buffer, const Protection& how);
  /// Finds the newest snapshot (plan_restore) of which all ranks' parts are left and undamaged. The number of ranks may
  /// have changed since.
  std::optional<RestorePlan> find();
  /// Fills the targets from the snapshots of a plan that find() returned. Throws StorageError (incompatible) naming the
  /// tensors, before it touches a target, if they do not hold exactly what all ranks together ask for.
  std::vector<ShardReport> restore(const RestorePlan& plan, std::span<const Target> targets, State& state);
  /// Removes the run's snapshots from memory and local disks, except those of the plan. To be called after a restore:
  /// later steps are discarded, because the run continues from an earlier one; older snapshots only take room.
  void keep_only(const std::optional<RestorePlan>& plan);

 private:
  struct Opened {
    SnapshotMemory memory;
    Snapshot snapshot;
  };

  int first_of_node(const std::string& node) const;
  bool is_first_of_node() const { return first_of_node(setup_.place.node) == group_.rank(); }

  // levels.cpp: keeping
  std::vector<std::size_t> sizes_of_all(std::size_t own);
  std::vector<std::size_t> ranks_without_parity() const;
  void copy_to_partner(std::span<const std::byte> buffer, std::vector<SnapshotMemory>& copies);
  void share_parity(std::span<const std::byte> buffer, std::vector<SnapshotMemory>& parity);
  struct Parity {
    std::vector<std::byte> bytes;
    std::string damage;  ///< seen on the way
  };
  Parity parity_of(std::span<const std::byte> buffer, const std::vector<int>& set, std::size_t longest);
  void write_to_disk(std::span<const std::byte> buffer);
  void remove_from_memory(const std::function<bool(const SnapshotLabel&)>& is_wanted);
  void remove_from_disk(const std::function<bool(const SnapshotLabel&)>& is_wanted);

  // levels_restore.cpp: finding and bringing back
  std::optional<Replica> look_at(const std::string& name);
  std::vector<Replica> replicas_of_node();
  Opened& open(const Replica& replica);
  bool is_whole(const Replica& replica);
  Replica rebuild(const ShardPlan& shard);
  void add_chunks(const ShardPlan& shard, int keeper, std::span<std::byte> sum);
  std::vector<Manifest> announce(const std::vector<Replica>& served);
  void check_fit(Step step, const std::vector<Manifest>& parts, std::span<const Target> targets);
  void deliver(const Replica& from, const std::vector<bool>& needed_by, std::vector<Replica>& here);
  void fill(const Target& target, const std::vector<Replica>& here);
  void check_still_there(const std::vector<Replica>& here);

  Group& group_;
  Setup setup_;
  std::optional<DiskSnapshots> disk_;
  std::vector<std::string> nodes_;  ///< by rank
  std::vector<int> partners_;
  std::vector<std::vector<int>> sets_;
  std::vector<SnapshotMemory> copies_, parity_;  ///< of other ranks
  std::vector<Replica> replicas_;                ///< of all ranks, in the last find()
  std::map<std::string, Opened> opened_;         ///< by name, while restoring
};

}  // namespace distdl::checkpoint
