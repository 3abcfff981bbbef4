// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <sys/statvfs.h>
#include <sys/types.h>

#include <distdl/base/file_descriptor.hpp>

namespace distdl {

/// The system calls by which checkpoints access a disk, as virtual functions, so that tests can make each one fail,
/// write less or end the process. Every function behaves like the system call of the same name: -1 and errno on
/// failure. This class calls the operating system.
///
/// It never changes anything behind a link. Functions that create, open for writing, rename or remove an entry work on
/// the descriptor of its folder. They fail with ELOOP if a folder of the path is a link. If the entry is a link, the
/// link itself is renamed or removed. A folder that a user may name by a link has to be resolved() first.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual int close(int descriptor);
  virtual ssize_t pwrite(int descriptor, const std::byte* data, std::size_t bytes, off_t offset);
  virtual ssize_t pread(int descriptor, std::byte* data, std::size_t bytes, off_t offset);
  virtual int fsync(int descriptor);
  /// Calls fallocate(2) rather than posix_fallocate: on file systems that cannot reserve space, glibc would write the
  /// whole file once.
  virtual int fallocate(int descriptor, off_t offset, off_t bytes);
  virtual int mkdir(const char* path, mode_t mode);
  /// renameat2(2): `flags` is 0, RENAME_NOREPLACE or RENAME_EXCHANGE.
  virtual int rename(const char* from, const char* to, unsigned flags);
  /// A second name for a file. Fails with EEXIST if there is one of this name.
  virtual int link(const char* from, const char* to);
  virtual int unlink(const char* path);
  virtual int rmdir(const char* path);
  virtual int statvfs(const char* path, struct statvfs* result);
  /// Called before HDF5 creates and writes `path` itself. The file must not exist.
  virtual int before_hdf5(const char* path);
};

FileSystem& real_file_system();

/// A folder that is reached without following a link, to list and change it. Empty with errno set on failure.
FileDescriptor open_folder(const char* path);

}  // namespace distdl
