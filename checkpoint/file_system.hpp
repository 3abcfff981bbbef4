// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <sys/statvfs.h>
#include <sys/types.h>

namespace distdl::checkpoint {

/// The system calls through which checkpoints touch a disk: one thin seam, so that a test can fail, cut short or kill
/// at each of them. Every function behaves like its namesake: -1 and errno on failure. This class is the real thing.
/// It never changes anything behind a link: what makes, opens for writing, renames or removes an entry works on the
/// descriptor of its folder, which it reaches without following a link, and fails with ELOOP if there is one on the
/// way. A link as the entry itself is renamed and removed as what it is. A folder that a user may name by a link has to
/// be resolved() first.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual int close(int descriptor);
  virtual ssize_t pwrite(int descriptor, const std::byte* data, std::size_t bytes, off_t offset);
  virtual ssize_t pread(int descriptor, std::byte* data, std::size_t bytes, off_t offset);
  virtual int fsync(int descriptor);
  /// fallocate(2), not posix_fallocate: where a file system cannot reserve, glibc would write the whole file once.
  virtual int fallocate(int descriptor, off_t offset, off_t bytes);
  virtual int mkdir(const char* path, mode_t mode);
  /// renameat2(2): `flags` is 0, RENAME_NOREPLACE or RENAME_EXCHANGE.
  virtual int rename(const char* from, const char* to, unsigned flags);
  virtual int unlink(const char* path);
  virtual int rmdir(const char* path);
  virtual int statvfs(const char* path, struct statvfs* result);
  /// Called before HDF5 creates and writes `path` by itself, which must not exist.
  virtual int before_hdf5(const char* path);
};

FileSystem& real_file_system();

}  // namespace distdl::checkpoint
