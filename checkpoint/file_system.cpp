// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/checkpoint/file_system.hpp>

namespace distdl::checkpoint {

int FileSystem::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}
int FileSystem::close(int descriptor) {
  return ::close(descriptor);
}
ssize_t FileSystem::pwrite(int descriptor, const std::byte* data, std::size_t bytes, off_t offset) {
  return ::pwrite(descriptor, data, bytes, offset);
}
ssize_t FileSystem::pread(int descriptor, std::byte* data, std::size_t bytes, off_t offset) {
  return ::pread(descriptor, data, bytes, offset);
}
int FileSystem::fsync(int descriptor) {
  return ::fsync(descriptor);
}
int FileSystem::fallocate(int descriptor, off_t offset, off_t bytes) {
  return ::fallocate(descriptor, 0, offset, bytes);
}
int FileSystem::mkdir(const char* path, mode_t mode) {
  return ::mkdir(path, mode);
}
int FileSystem::rename(const char* from, const char* to, unsigned flags) {
  return flags == 0 ? ::rename(from, to) : ::renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
}
int FileSystem::unlink(const char* path) {
  return ::unlink(path);
}
int FileSystem::rmdir(const char* path) {
  return ::rmdir(path);
}
int FileSystem::statvfs(const char* path, struct statvfs* result) {
  return ::statvfs(path, result);
}
int FileSystem::before_hdf5(const char*) {
  return 0;
}

FileSystem& real_file_system() {
  static FileSystem real;
  return real;
}

}  // namespace distdl::checkpoint
