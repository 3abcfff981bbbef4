// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/inventory.hpp>
#include <distdl/checkpoint/levels.hpp>
#include <distdl/checkpoint/multilevel/redundancy.hpp>
#include <distdl/checkpoint/options.hpp>
#include <distdl/checkpoint/snapshot_memory.hpp>
#include <distdl/files/file_system.hpp>

namespace distdl::checkpoint {

class Candidates;
class NodeSnapshots;

/// This rank, and the places of all ranks.
struct Ranks {
  Group& group;
  FileSystem& files;
  Levels::Setup setup;             ///< setup of this rank
  std::vector<std::string> nodes;  ///< node of each rank
  Domains domains;                 ///< failure domain of each rank

  /// The first rank of a node, which lists and removes what all ranks of the node left there.
  int first_of_node(const std::string& node) const;
  bool is_first_of_node() const { return first_of_node(setup.place.node) == group.rank(); }
};

using IsWanted = std::function<bool(const SnapshotLabel&)>;

/// The copies of one level, as one rank makes, keeps and reads them.
class LevelCopies {
 public:
  explicit LevelCopies(const Level& level) : level_(level) {}
  virtual ~LevelCopies() = default;
  LevelCopies(const LevelCopies&) = delete;
  LevelCopies& operator=(const LevelCopies&) = delete;

  const Level& level() const noexcept { return level_; }
  /// A warning that names the ranks for which there can be no copy, with a remedy.
  virtual std::optional<std::string> gap() const { return std::nullopt; }
  /// True if protect() makes copies for all ranks.
  virtual bool covers_all() const { return true; }
  /// Collective. Makes copies of all ranks' sealed buffers beside the older copies. Throws StorageError, the same on
  /// all ranks.
  virtual void protect(std::span<const std::byte> buffer) = 0;
  /// Drops what protect() made, because this level or another one failed.
  virtual void give_up() noexcept {}
  /// Removes the copies before those of protect(). `is_not_older` is true for labels that are not older than these.
  virtual void remove_older(const IsWanted& is_not_older) = 0;
  /// Removes all copies that are not wanted.
  virtual void keep_only(const IsWanted& is_wanted) = 0;
  /// The copies of the run that this node has outside its memory. Called by the first rank of a node.
  virtual std::vector<Replica> list() { return {}; }
  /// Reads a copy of list() into memory. The bytes may be anything. Throws StorageError.
  virtual SnapshotMemory load(const std::string& name) const { return SnapshotMemory::open(name); }

 private:
  const Level& level_;
};

/// A kind of copies of a snapshot. Each is defined in its own file; level.cpp lists them all.
struct Level {
  std::string_view name;  ///< name in records
  /// The copies lie in the memory of other nodes. They are useless without the other ranks' snapshot buffers, which
  /// therefore stay as long as the copies, and they are made anew after a restart.
  bool in_memory = false;
  const char* medium = "memory";  ///< place of the copies in messages
  const char* source;             ///< the same for messages about a restore
  std::string_view key;           ///< job key of the interval
  std::int64_t Options::*every;   ///< steps between copies; 0: none
  /// Throws ConfigError for invalid values of the level's other options. Null: it has none.
  void (*check)(const Options& options) = nullptr;
  /// Collective. Returns null if the options name no place for copies. Throws StorageError, the same on all ranks.
  std::unique_ptr<LevelCopies> (*make)(const Ranks& ranks);
  /// The replicas from which this level gets a rank's snapshot. Returns nothing if there are not enough. It is pure.
  std::optional<std::vector<std::size_t>> (*find)(const Candidates& all, int rank);
  /// Collective. Computes the snapshot of a shard from the replicas that find() chose, and returns its replica. Throws
  /// StorageError, the same on all ranks. Null: the first of them is the snapshot.
  Replica (*rebuild)(NodeSnapshots& node, const ShardPlan& shard, std::span<const Replica> replicas) = nullptr;
};

/// All levels, in the order in which copies are made and in which a restore prefers them.
std::span<const Level* const> levels();
/// Returns null if there is no level of this name.
const Level* find_level(std::string_view name);
/// Throws ConfigError with the known names if there is no level of this name.
const Level& level_called(std::string_view name);
/// Position in levels().
std::size_t place_of(const Level& level);

}  // namespace distdl::checkpoint
