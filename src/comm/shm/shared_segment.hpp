// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <sys/types.h>

#include <distdl/base/file_descriptor.hpp>

namespace distdl::comm {

/// A POSIX shared memory segment that is mapped into this process. Its name is "distdl-<uid>-<job>-<random>", its mode
/// 0600. While the name exists, its creator holds a lock on it (flock): a name without a lock is stale. A process maps
/// a segment once, at one address, however many of its threads create or open it.
class SharedSegment {
 public:
  /// Zeroed memory, completely reserved and mapped. Throws CommError that names /dev/shm and the bytes if there is no
  /// space.
  static std::shared_ptr<SharedSegment> create(const std::string& job, std::size_t bytes);
  enum class Mapping { lazy, eager };
  /// Throws CommError unless there is such a segment that belongs to this user and is closed to other users.
  static std::shared_ptr<SharedSegment> open(const std::string& name, Mapping mapping);
  /// Removes the segments of this user that no living process holds. Returns their number.
  static int sweep();

  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  const std::string& name() const { return name_; }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// Whether create() made it in this process (not in a process that forked it).
  bool is_created_here() const;
  /// Removes the name if this is the creator. Processes that have mapped the memory keep it.
  void unlink() noexcept;

 private:
  SharedSegment() = default;
  bool create_locked(const std::string& name);
  void reserve();
  void map(int descriptor, std::size_t bytes, Mapping mapping);

  std::string name_;
  std::size_t bytes_ = 0;
  std::byte* data_ = nullptr;
  pid_t creator_ = 0;
  FileDescriptor locked_;  ///< held by the creator while the name exists
};

}  // namespace distdl::comm
