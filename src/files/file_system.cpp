// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/file_descriptor.hpp>
#include <distdl/files/file_system.hpp>

namespace distdl {
namespace {
/// Where the last name of a path lies: the folder is open, and was reached without following a link. A walk by hand,
/// because openat2 is missing before Linux 5.6.
class PathEnd {
 public:
  explicit PathEnd(std::string_view path) {
    while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    if (path.starts_with('/')) enter("/");
    for (auto slash = path.find('/'); is_open_ && slash != std::string_view::npos; slash = path.find('/')) {
      if (slash > 0) enter(std::string(path.substr(0, slash)));
      path.remove_prefix(slash + 1);
    }
    name_ = path;
  }
  /// False with errno set, ELOOP if there is a link on the way.
  explicit operator bool() const { return is_open_; }
  int folder() const { return folder_ ? folder_.get() : AT_FDCWD; }
  const char* name() const { return name_.c_str(); }

 private:
  void enter(const std::string& name) {
    FileDescriptor next(::openat(folder(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    is_open_ = static_cast<bool>(next);
    if (is_open_) {
      folder_ = std::move(next);
      return;
    }
    struct stat status {};
    const int number = errno;
    const bool is_link =
        ::fstatat(folder(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
    errno = is_link ? ELOOP : number;
  }

  FileDescriptor folder_;
  std::string name_;
  bool is_open_ = true;
};

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

}  // namespace distdl
