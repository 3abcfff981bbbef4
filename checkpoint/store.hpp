// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/group.hpp>
#include <distdl/checkpoint/options.hpp>
#include <distdl/checkpoint/owner.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/summary.hpp>

namespace distdl {
class FileSystem;
}

namespace distdl::checkpoint {

class Collector;

/// A folder of checkpoints: <root>/step-%012d/{MANIFEST,node0000.h5,...}. See docs/checkpoint-format.md. Not
/// thread-safe. Errors are StorageError with code storage, corrupt, incomplete, incompatible or superseded, the same on
/// all ranks.
class Store {
 public:
  /// Throws ConfigError if the options are invalid.
  Store(const std::filesystem::path& root, Options options);
  /// For tests with a file system that fails on purpose. It must outlive the store.
  Store(const std::filesystem::path& root, Options options, FileSystem& files);
  Store(Store&&) noexcept;
  /// The copy has the same folder and start, and shares the list of checkpoints to delete.
  Store(const Store&);
  /// The last copy waits at most half a minute for the deletion of old checkpoints.
  ~Store();

  /// Collective. Takes the folder: creates it, checks that it is writable and the same one on all ranks, and writes
  /// OWNER (rank 0's `owner`; an empty nonce is replaced by a random one). Removes what dead runs left. Afterwards
  /// every other run's save fails. Throws StorageError (superseded) if a newer generation of the same launch has the
  /// folder. With SnapshotUse::none, this and all later starts ignore the snapshots of earlier
  /// starts.
  void take(Group& group, const Owner& owner, SnapshotUse snapshots = SnapshotUse::newest);
  /// Collective. Throws StorageError (storage) if the file system has no space for two checkpoints of so many bytes. An
  /// existing checkpoint counts as one of them. A full disk is thus found before training.
  void check_room(Group& group, std::uint64_t bytes) const;
  /// Collective. Writes the union of all ranks' slices and commits it. The slices are disjoint and form whole tensors.
  /// A rank without slices writes no file. On return the checkpoint is durable. If this throws, the previous
  /// checkpoints are unchanged. Checkpoints that Options::keep does not cover are then deleted in the background.
  ///
  /// If this step exists with the same tensors and state, nothing is written. If it exists with others, the old
  /// checkpoint is moved to quarantine. If any rank fails, every rank throws the same StorageError: storage (a later
  /// try may succeed), superseded (another run took the folder, so this one must end), or incompatible if the slices do
  /// not form whole tensors. Errors of the group pass through; the next restart then finds out whether the checkpoint
  /// exists. No rank returns before all ranks have finished.
  SaveReport save(Group& group, Step step, std::span<const Slice> slices, const State& state);
  /// Collective. The summary of the newest committed checkpoint, or of the newest one before step `below`, without
  /// verification. If its manifest cannot be read, only the step is set. Empty if there is no checkpoint.
  std::optional<Summary> newest(Group& group, std::optional<Step> below = {});
  using Reading = std::function<void(const Summary&)>;
  /// Collective. The newest checkpoint (before step `below`) whose manifest, sizes and block checksums are right. Each
  /// rank verifies some of its files. With `reading`, each rank instead calls that to read what it needs, so that
  /// nothing is read twice. If it throws StorageError (corrupt or incomplete) on any rank, the search continues with
  /// older checkpoints. Other errors pass through on all ranks.
  ///
  /// Damaged checkpoints are logged. If this run owns the folder, they are also moved to quarantine/ with the reason.
  /// Returns nothing if no checkpoint is valid. Throws StorageError: incompatible if a newer distdl wrote the
  /// checkpoint; storage if permission to read it is missing.
  std::optional<Summary> newest_valid(Group& group, std::optional<Step> below = {}, const Reading& reading = {});
  /// Collective. Moves all checkpoints after this step (nothing: all) to quarantine, although their checksums may be
  /// right. Later starts ignore the snapshots of this one. Returns the steps on rank 0.
  std::vector<Step> set_aside_after(Group& group, std::optional<Step> last, const std::string& reason);
  /// The newest checkpoint up to this step is not deleted, until a later call names a greater step.
  void keep_newest_until(Step step);
  /// Fills the targets from a checkpoint and verifies the checksums of all bytes that it uses. Throws StorageError
  /// (incompatible) that names the tensor with the expected and the found shape if they differ. Not collective.
  void read(const Summary& checkpoint, std::span<const Target> targets, PageCache cache = PageCache::used) const;

  /// The path of the folder with all links resolved.
  const std::filesystem::path& root() const noexcept { return root_; }
  /// The absolute path as the run uses it, equal on all nodes. It is part of the names of its snapshots.
  const std::filesystem::path& named_root() const noexcept { return named_root_; }
  const Options& options() const noexcept { return options_; }
  FileSystem& files() const noexcept { return *files_; }
  /// Valid after take().
  const Owner& owner() const noexcept { return owner_; }
  /// The name of the run in its snapshots, equal in all its processes and restarts. Valid after take().
  std::string run_name() const;

 private:
  void set_aside(Step step, const std::filesystem::path& folder, const std::string& reason) const;
  /// Name and manifest, on separate lines, of the newest checkpoint before `below` whose manifest is intact. Empty if
  /// there is none.
  std::string next_candidate(std::optional<Step> below) const;

  std::filesystem::path named_root_, root_;
  Options options_;
  Owner owner_;
  FileSystem* files_;
  std::shared_ptr<Collector> collector_;  ///< works only on rank 0
  bool taken_ = false;
};

}  // namespace distdl::checkpoint
