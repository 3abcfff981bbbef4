// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/path_end.hpp>
#include <distdl/files/file_system.hpp>

namespace distdl {
namespace {
bool changes(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
}
}  // namespace

int FileSystem::open(const char* path, int flags, mode_t mode) {
  if (!changes(flags)) return ::open(path, flags, mode);
  const PathEnd place(path);
  return place ? ::openat(place.folder(), place.name(), flags | O_NOFOLLOW, mode) : -1;
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
  const PathEnd place(path);
  return place ? ::mkdirat(place.folder(), place.name(), mode) : -1;
}
int FileSystem::rename(const char* from, const char* to, unsigned flags) {
  const PathEnd source(from);
  if (!source) return -1;
  const PathEnd target(to);
  if (!target) return -1;
  if (flags == 0) return ::renameat(source.folder(), source.name(), target.folder(), target.name());
  return ::renameat2(source.folder(), source.name(), target.folder(), target.name(), flags);
}
int FileSystem::link(const char* from, const char* to) {
  const PathEnd source(from);
  if (!source) return -1;
  const PathEnd target(to);
  return target ? ::linkat(source.folder(), source.name(), target.folder(), target.name(), 0) : -1;
}
int FileSystem::unlink(const char* path) {
  const PathEnd place(path);
  return place ? ::unlinkat(place.folder(), place.name(), 0) : -1;
}
int FileSystem::rmdir(const char* path) {
  const PathEnd place(path);
  return place ? ::unlinkat(place.folder(), place.name(), AT_REMOVEDIR) : -1;
}
int FileSystem::statvfs(const char* path, struct statvfs* result) {
  return ::statvfs(path, result);
}
int FileSystem::before_hdf5(const char* path) {
  return PathEnd(path) ? 0 : -1;
}

FileSystem& real_file_system() {
  static FileSystem real;
  return real;
}

FileDescriptor open_folder(const char* path) {
  const PathEnd place(std::string(path) + "/.");
  return FileDescriptor(place ? ::openat(place.folder(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
}

}  // namespace distdl
