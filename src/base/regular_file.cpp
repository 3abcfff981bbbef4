// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl {
namespace {
void check_kind(const std::filesystem::path& file, mode_t mode) {
  require<StorageError>(S_ISREG(mode), "\"{}\" is {}, but a regular file was expected: remove it", file.string(),
                        kind_of(mode));
}
/// Of a file that may be cut meanwhile.
std::string read_from(const FileDescriptor& descriptor, const std::filesystem::path& file, off_t begin, off_t end) {
  std::string text(static_cast<std::size_t>(std::max<off_t>(end - begin, 0)), '\0');
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = ::pread(descriptor.get(), text.data() + at, text.size() - at, begin + static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    require<StorageError>(n >= 0, "cannot read \"{}\": {}", file.string(), errno_text(errno));
    if (n == 0) text.resize(at);
    at += static_cast<std::size_t>(n);
  }
  return text;
}
}  // namespace

std::string_view kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a folder";
    case S_IFLNK:
      return "a link";
    case S_IFIFO:
      return "a FIFO";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

FileDescriptor open_regular(const std::filesystem::path& file, int flags, mode_t mode) {
  struct stat status {};
  // Before, because opening a device may do something to it; and after, because that is what was opened.
  if (::lstat(file.c_str(), &status) == 0) check_kind(file, status.st_mode);
  FileDescriptor descriptor(::open(file.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode));
  if (!descriptor || ::fstat(descriptor.get(), &status) != 0)
    throw StorageError(fmt::format("cannot open \"{}\": {}", file.string(), errno_text(errno)),
                       errno == ENOENT && !(flags & O_CREAT) ? ExitCode::incomplete
                       : is_shortage(errno)                  ? ExitCode::config
                                                             : ExitCode::storage);
  check_kind(file, status.st_mode);
  return descriptor;
}

std::string read_regular(const std::filesystem::path& file, std::size_t most) {
  const FileDescriptor descriptor = open_regular(file, O_RDONLY);
  const off_t size = ::lseek(descriptor.get(), 0, SEEK_END);
  if (size > static_cast<off_t>(most))
    throw StorageError(
        fmt::format("\"{}\" has {} bytes, but at most {} were expected: remove it", file.string(), size, most),
        ExitCode::corrupt);
  return read_from(descriptor, file, 0, size);
}

std::string read_end_of_regular(const std::filesystem::path& file, std::size_t most) {
  const FileDescriptor descriptor = open_regular(file, O_RDONLY);
  const off_t size = ::lseek(descriptor.get(), 0, SEEK_END);
  return read_from(descriptor, file, std::max<off_t>(0, size - static_cast<off_t>(most)), size);
}

}  // namespace distdl
