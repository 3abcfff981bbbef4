// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

// A real file system whose power can be cut: ext4 on a loop device over a file in memory.
namespace distdl::checkpoint::proof {

/// Why there can be none here, or nothing: it takes root, loop devices and mkfs.ext4. Moves this process to a mount
/// namespace of its own, so that nobody else sees the mounts.
std::string cannot_make_ext4();

/// An image of a disk, mounted.
class Ext4 {
 public:
  /// What of the file system's journal is still written when the power goes.
  enum class Journal { lost, written };

  /// A new file system in `image`, which must not exist. Throws std::runtime_error.
  static void make(const std::filesystem::path& image, int mebibytes);

  /// Mounts the image there, replaying its journal. Throws std::runtime_error naming the call and errno.
  Ext4(const std::filesystem::path& image, const std::filesystem::path& where, const std::string& options);
  Ext4(const Ext4&) = delete;
  Ext4& operator=(const Ext4&) = delete;
  ~Ext4();

  /// From now on nothing reaches the disk any more: every call fails (EIO). For any thread.
  void cut_power(Journal journal);

 private:
  std::filesystem::path where_;
  int root_ = -1;
};

}  // namespace distdl::checkpoint::proof
