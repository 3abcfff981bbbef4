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

/// The place of a rank in the machine.
struct Place {
  std::string node;    ///< ranks with equal names share memory and local disk
  std::string domain;  ///< the failure domain if that is larger than the node
};

/// The copies of a snapshot, in addition to the checkpoints on the parallel file system. See docs/checkpoint-format.md,
/// "Levels".
struct Protection {
  /// A copy in the memory of another failure domain; protects against the loss of any one domain.
  bool partner = false;
  /// XOR over a set of ranks of different domains; protects against the loss of one domain per set.
  bool parity = false;
  bool disk = false;  ///< a copy on the node's own disk; protects against the loss of all processes and of power
};

struct ShardReport {
  int rank = 0;  ///< rank in the world that saved
  RestoreSource source = RestoreSource::memory;
  double seconds = 0;  ///< time until its bytes were on every node that needs them
};

/// The levels above the file system. All calls are collective. Errors are StorageError, the same on all ranks.
class Levels {
 public:
  struct Setup {
    std::string run;  ///< see SnapshotLabel
    /// Name of the run's buffers in this node's memory: equal to `run`, unless a test simulates nodes.
    std::string memory;
    Place place;
    /// Kinds of copies that the run will make; older copies of them are kept until then.
    Protection used = {true, true, false};
    int parity_set = 8;          ///< most members of a set; at least 3
    std::filesystem::path disk;  ///< folder of a local disk; empty: none
  };
  /// `group` and `files` must outlive this object.
  Levels(Group& group, FileSystem& files, Setup setup);

  /// Warnings that name the ranks without a partner or without parity although Setup::used asks for it, with a remedy.
  std::vector<std::string> gaps() const;
  /// Protects each rank's sealed buffer as `how` says. All buffers are of the same step. On return the copies exist,
  /// and older ones of the same kind are removed. Kinds that need more failure domains than there are get skipped.
  /// Returns the kinds of which all ranks have a copy. If this throws, the older copies still exist.
  Protection protect(std::span<const std::byte> buffer, const Protection& how);
  /// Finds the newest snapshot (plan_restore) of which all ranks' parts exist undamaged. The number of ranks may have
  /// changed since it was taken.
  std::optional<RestorePlan> find();
  /// Fills the targets from the snapshots of a plan that find() returned. The snapshots must contain exactly the
  /// tensors that all ranks together request. Otherwise it throws StorageError (incompatible) with their names, before
  /// any target is changed.
  std::vector<ShardReport> restore(const RestorePlan& plan, std::span<const Target> targets, State& state);
  /// The targets of a rank, by what all snapshots together have.
  using TargetsOf = std::function<std::vector<Target>(const Summary& all)>;
  /// Restores as restore() does, where the targets depend on the snapshots.
  std::vector<ShardReport> restore_what_is_there(const RestorePlan& plan, const TargetsOf& targets_of, State& state);
  /// Removes the run's snapshots from memory and local disks, except those of the plan. It is called after a restore.
  /// Steps after the resume point are discarded, because the run continues from an earlier one; older snapshots only
  /// take up space.
  void keep_only(const std::optional<RestorePlan>& plan);

 private:
  struct Opened {
    SnapshotMemory memory;
    Snapshot snapshot;
  };

  int first_of_node(const std::string& node) const;
  bool is_first_of_node() const { return first_of_node(setup_.place.node) == group_.rank(); }

  // Functions in levels.cpp, which copy snapshots.
  std::vector<std::size_t> sizes_of_all(std::size_t own);
  std::vector<std::size_t> ranks_without_parity() const;
  void copy_to_partner(std::span<const std::byte> buffer, std::vector<SnapshotMemory>& copies);
  void share_parity(std::span<const std::byte> buffer, std::vector<SnapshotMemory>& parity);
  struct Parity {
    std::vector<std::byte> bytes;
    std::string damage;  ///< a checksum error on the way; empty: none
  };
  Parity parity_of(std::span<const std::byte> buffer, const std::vector<int>& set, std::size_t longest);
  void write_to_disk(std::span<const std::byte> buffer);
  void remove_from_memory(const std::function<bool(const SnapshotLabel&)>& is_wanted);
  void remove_from_disk(const std::function<bool(const SnapshotLabel&)>& is_wanted);

  // Functions in levels_restore.cpp, which find and restore snapshots.
  std::optional<Replica> look_at(const std::string& name);
  std::vector<Replica> replicas_of_node();
  Opened& open(const Replica& replica);
  bool is_whole(const Replica& replica);
  Replica rebuild(const ShardPlan& shard);
  void add_chunks(const ShardPlan& shard, int keeper, std::span<std::byte> sum);
  std::vector<Manifest> announce(const std::vector<Replica>& served);
  void check_fit(Step step, const Summary& all, std::span<const Target> targets);
  void deliver(const Replica& from, const std::vector<bool>& needed_by, std::vector<Replica>& here);
  void fill(const Target& target, const std::vector<Replica>& here);
  void check_still_there(const std::vector<Replica>& here);

  Group& group_;
  Setup setup_;
  std::optional<DiskSnapshots> disk_;
  std::vector<std::string> nodes_;  ///< node of each rank
  std::vector<int> partners_;
  std::vector<std::vector<int>> sets_;
  std::vector<SnapshotMemory> copies_, parity_;  ///< snapshots and parity that this rank keeps for other ranks
  std::vector<Replica> replicas_;                ///< replicas of all ranks that the last find() saw
  std::map<std::string, Opened> opened_;         ///< snapshots that are open during a restore, by name
};

}  // namespace distdl::checkpoint
