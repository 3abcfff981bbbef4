// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/checkpoint/commit/retention.hpp>
#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>
#include <distdl/checkpoint/owner.hpp>

namespace distdl::checkpoint {

/// Whether the file system of the root has room for a checkpoint of so many bytes, as far as it tells.
bool has_room(FileSystem& files, const Path& root, std::uint64_t bytes);
/// Throws StorageError if the file system of the root has no room for a checkpoint of so many bytes.
void check_room(FileSystem& files, const Path& root, std::uint64_t bytes);
/// Bytes of files that a checkpoint of so many bytes of tensors will take: as the newest one did, where room is so
/// short that this matters. Before the first one nobody knows what compression leaves; then 0, if it is `compressed`.
std::uint64_t expected_bytes(FileSystem& files, const Path& root, std::uint64_t bytes, bool compressed);
/// Throws StorageError if a run has no room for one verified checkpoint and the one that is being written, even without
/// those that may go; warns where there is not enough for all that `rule` keeps.
void check_room_of_run(FileSystem& files, const Path& root, std::uint64_t bytes, bool compressed, const Rule& rule);

/// The leader's side of a save: a stage folder that becomes step-S in one rename, or disappears with this object.
class Commit {
 public:
  Commit(FileSystem& files, Path root, Owner owner, Step step);
  Commit(const Commit&) = delete;
  Commit& operator=(const Commit&) = delete;
  /// Removes the stage unless it was published. A process that cannot do it any more leaves garbage for Store::take.
  ~Commit();

  /// Makes the stage for `bytes` of data. Throws StorageError if the disk has less room.
  const Path& open_stage(std::uint64_t bytes);
  /// Writes the manifest and renames the stage: when this returns the checkpoint exists whatever happens. A folder that
  /// has the name already goes to quarantine. Throws StorageError; if another run has taken the root, saying so.
  void publish(const Manifest& manifest);

 private:
  void check_files(const Manifest& manifest);
  Path rename_stage();

  FileSystem& files_;
  Path root_;
  Owner owner_;
  Step step_;
  Path stage_;  ///< empty: there is none
};

/// Points LATEST at a step. Only a hint, so that failing is logged and nothing more.
void write_latest(FileSystem& files, const Path& root, Step step) noexcept;

}  // namespace distdl::checkpoint
