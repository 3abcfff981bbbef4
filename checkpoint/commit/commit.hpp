// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/checkpoint/commit/retention.hpp>
#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/owner.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {

/// Whether the file system of the root has space for a checkpoint of so many bytes. True if the free space is unknown.
bool has_room(FileSystem& files, const Path& root, std::uint64_t bytes);
/// Throws StorageError if the file system of the root has no space for a checkpoint of so many bytes.
void check_room(FileSystem& files, const Path& root, std::uint64_t bytes);
/// Estimates the bytes of the files of a checkpoint with so many bytes of tensors: `bytes`, or 0 if they are
/// `compressed`, because the result of compression is unknown. If space is short and the newest checkpoint has a
/// similar size, the estimate is at least the bytes of its files.
std::uint64_t expected_bytes(FileSystem& files, const Path& root, std::uint64_t bytes, bool compressed);
/// Throws StorageError if there is no space for one verified checkpoint and the one being written, even after all
/// deletable checkpoints are deleted. Warns if the space does not suffice for all that `rule` keeps.
void check_room_of_run(FileSystem& files, const Path& root, std::uint64_t bytes, bool compressed, const Rule& rule);

/// The leader's part of a save: a stage folder that becomes step-S in one rename, or is removed with this object.
class Commit {
 public:
  Commit(FileSystem& files, Path root, Owner owner, Step step);
  Commit(const Commit&) = delete;
  Commit& operator=(const Commit&) = delete;
  /// Removes the stage unless it was published. If the process is killed first, the stage remains until Store::take
  /// removes it.
  ~Commit();

  /// Creates the stage for `bytes` of data. Throws StorageError if the disk has less space.
  const Path& open_stage(std::uint64_t bytes);
  /// Writes the manifest and renames the stage. On return the checkpoint exists, whatever happens later. A folder that
  /// already has the name is moved to quarantine. Throws StorageError, with code superseded if another run has taken
  /// the root.
  void publish(const Manifest& manifest);

 private:
  void check_files(const Manifest& manifest);
  Path rename_stage();

  FileSystem& files_;
  Path root_;
  Owner owner_;
  Step step_;
  Path stage_;  ///< empty: there is no stage
};

/// Points LATEST at a step. LATEST is only a hint, so a failure is logged and ignored.
void write_latest(FileSystem& files, const Path& root, Step step) noexcept;

}  // namespace distdl::checkpoint
