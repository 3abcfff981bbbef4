// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/inspect.hpp>
#include <distdl/checkpoint/inventory.hpp>
#include <distdl/checkpoint/options.hpp>
#include <distdl/checkpoint/protection.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/files/file_system.hpp>

namespace distdl::checkpoint {

class LevelCopies;
class NodeSnapshots;
struct Manifest;
struct Ranks;

/// The place of a rank in the machine.
struct Place {
  std::string node;    ///< ranks with equal names share memory and local disk
  std::string domain;  ///< the failure domain if that is larger than the node
};

struct ShardReport {
  int rank = 0;  ///< rank in the world that saved
  RestoreSource source = {};
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
    /// Intervals and other options of the levels. A level whose interval is not 0 is used: its older copies are kept
    /// until there are newer ones.
    Options options = {};
  };
  /// `group` and `files` must outlive this object.
  Levels(Group& group, FileSystem& files, Setup setup);
  ~Levels();
  Levels(const Levels&) = delete;
  Levels& operator=(const Levels&) = delete;

  /// Warnings that name the ranks without a partner or without parity although Setup::options ask for it, with a
  /// remedy.
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
  // Functions in levels_restore.cpp.
  Replica fetch(const ShardPlan& shard);
  std::vector<Manifest> announce(const std::vector<Replica>& served);
  void check_fit(Step step, const Summary& all, std::span<const Target> targets);
  void deliver(const Replica& from, const std::vector<bool>& needed_by, std::vector<Replica>& here);
  void fill(const Target& target, const std::vector<Replica>& here);

  Group& group_;
  std::unique_ptr<const Ranks> ranks_;
  std::vector<std::unique_ptr<LevelCopies>> copies_;  ///< copies of each level that has a place for some
  std::unique_ptr<NodeSnapshots> node_;
  std::vector<Replica> replicas_;  ///< replicas of all ranks that the last find() saw
};

}  // namespace distdl::checkpoint
