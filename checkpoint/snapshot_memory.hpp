// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/file_descriptor.hpp>

namespace distdl::checkpoint {

/// Memory for a buffer: a POSIX shared memory file that outlives the process which made it, called
/// "distdl.slot-<uid>-<run>-<rank>-<random>", mode 0600. Every process that has it open holds a shared lock on it
/// (flock): a file without a lock is orphaned.
class SnapshotMemory {
 public:
  /// Zeroed, reserved and mapped. `run` names the run alike in all its processes and restarts. Throws StorageError
  /// naming /dev/shm and the bytes if there is no room.
  static SnapshotMemory create(const std::string& run, int rank, std::size_t bytes);
  /// The same without a name, which no other process can open: where /dev/shm has no room. Throws StorageError.
  static SnapshotMemory create_private(std::size_t bytes);
  /// For reading. Throws StorageError: incomplete if there is none of this name; storage unless it is this user's, and
  /// closed to others.
  static SnapshotMemory open(const std::string& name);
  /// The same without a lock: whoever wants to remove it or fill it again need not wait for a tool.
  static SnapshotMemory peek(const std::string& name);

  SnapshotMemory(SnapshotMemory&& other) noexcept;
  SnapshotMemory& operator=(SnapshotMemory&& other) noexcept;
  /// Leaves the file: whoever restarts may want it. See remove().
  ~SnapshotMemory();

  /// Empty if private.
  const std::string& name() const noexcept { return name_; }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// Of the creator, for whom it is writable.
  std::span<std::byte> writable() noexcept { return bytes_; }
  /// Notes that it is in use now; see sweep_buffers().
  void touch() noexcept;
  /// Removes the name; those who have mapped the memory keep it.
  void remove() noexcept;

 private:
  SnapshotMemory() = default;
  void map(std::size_t bytes, bool writes, const std::string& what);
  void reserve(std::size_t bytes);

  std::string name_;
  FileDescriptor file_;  ///< holds the lock
  std::span<std::byte> bytes_;
};

/// What the names of all buffers of this user begin with.
std::string buffer_prefix();
/// What the names of a run's buffers begin with.
std::string buffer_prefix(const std::string& run);
/// Names of the buffers of this user on this node that belong to `run`; of one rank, or of all (-1).
std::vector<std::string> buffers_of(const std::string& run, int rank = -1);
/// Removes a buffer unless a living process has it open; false if it is still there.
bool remove_orphan(const std::string& name);
/// Removes this user's buffers that no living process has open, except for those of the run `spare`, and for those that
/// were in use within the last `restart`: their run may be about to begin again. Returns how many.
int sweep_buffers(const std::string& spare = "", std::chrono::seconds restart = std::chrono::seconds(0));
/// The same with those of one run, whichever of its ranks were on this node before, once its restart has what it wants
/// from them.
int sweep_buffers_of(const std::string& run);

}  // namespace distdl::checkpoint
