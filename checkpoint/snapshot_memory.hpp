// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/file_descriptor.hpp>

namespace distdl::checkpoint {

/// Memory for a buffer: a POSIX shared memory file of mode 0600 that outlives the process that created it. Its name is
/// "distdl.slot-<uid>-<run>-<rank>-<random>". Every process that has it open holds a shared lock on it (flock). A file
/// without a lock is orphaned.
class SnapshotMemory {
 public:
  /// The memory is zeroed, reserved and mapped. `run` is the name of the run, equal in all its processes and restarts.
  /// Throws StorageError that names /dev/shm and the bytes if there is no space.
  static SnapshotMemory create(const std::string& run, int rank, std::size_t bytes);
  /// Creates memory without a name, which no other process can open, if /dev/shm has no space. Throws StorageError.
  static SnapshotMemory create_private(std::size_t bytes);
  /// Opens a buffer for reading. Throws StorageError: incomplete if there is none of this name; storage unless it
  /// belongs to this user and is closed to others.
  static SnapshotMemory open(const std::string& name);
  /// Opens a buffer for reading without a lock, so that a tool does not prevent its removal or reuse.
  static SnapshotMemory peek(const std::string& name);

  SnapshotMemory(SnapshotMemory&& other) noexcept;
  SnapshotMemory& operator=(SnapshotMemory&& other) noexcept;
  /// Keeps the file, because a restart may use it. See remove().
  ~SnapshotMemory();

  /// Empty if the memory is private.
  const std::string& name() const noexcept { return name_; }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// Only the creator may write.
  std::span<std::byte> writable() noexcept { return bytes_; }
  /// Records the current time as that of the last use, see sweep_buffers().
  void touch() noexcept;
  /// Removes the name. Processes that have mapped the memory keep it.
  void remove() noexcept;

 private:
  SnapshotMemory() = default;
  void map(std::size_t bytes, bool writes, const std::string& what);
  void reserve(std::size_t bytes);

  std::string name_;
  FileDescriptor file_;  ///< holds the lock
  std::span<std::byte> bytes_;
};

/// The beginning of the names of all buffers of this user.
std::string buffer_prefix();
/// The beginning of the names of a run's buffers.
std::string buffer_prefix(const std::string& run);
/// Names of this user's buffers on this node that belong to `run`, for one rank or for all (-1).
std::vector<std::string> buffers_of(const std::string& run, int rank = -1);
/// Removes a buffer unless a living process has it open. Returns false if it still exists.
bool remove_orphan(const std::string& name);
/// Removes this user's buffers that no living process has open. Buffers of the run `spare` are kept, as are those that
/// were in use within the last `restart`, because their run may be about to restart. Returns the number of removed
/// buffers.
int sweep_buffers(const std::string& spare = "", std::chrono::seconds restart = std::chrono::seconds(0));
/// Removes all buffers of one run that no living process has open, whatever ranks they belong to. Call it after the
/// restart has restored what it needs.
int sweep_buffers_of(const std::string& run);

}  // namespace distdl::checkpoint
