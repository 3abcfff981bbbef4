// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/path_end.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl {
namespace {
void check_kind(const std::filesystem::path& file, mode_t mode) {
  require<StorageError>(S_ISREG(mode), "\"{}\" is {}, but a regular file was expected: remove it, or name another one",
                        file.string(), kind_of(mode));
}
StorageError cannot_open(const std::filesystem::path& file, int flags, int number) {
  const auto link = number == ELOOP ? link_on(file) : std::filesystem::path();
  return StorageError(
      fmt::format(
          "cannot open \"{}\": {}{}", file.string(), errno_text(number),
          link.empty() ? "" : fmt::format("; \"{}\" is a link, which is not followed: remove it", link.string())),
      number == ENOENT && !(flags & O_CREAT) ? ExitCode::incomplete
      : is_shortage(number)                  ? ExitCode::config
                                             : ExitCode::storage);
}

FileDescriptor open_at(int folder, const char* name, const std::filesystem::path& file, int flags) {
  struct stat status {};
  // Before, because opening a device may do something to it; and after, because that is what was opened.
  if (::fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0) check_kind(file, status.st_mode);
  FileDescriptor descriptor(::openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
  if (!descriptor || ::fstat(descriptor.get(), &status) != 0) throw cannot_open(file, flags, errno);
  check_kind(file, status.st_mode);
  return descriptor;
}

/// The bytes from `begin` to `end`; fewer if the file is cut meanwhile.
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

FileDescriptor open_regular(const std::filesystem::path& file) {
  return open_at(AT_FDCWD, file.c_str(), file, O_RDONLY);
}

FileDescriptor open_to_append(const std::filesystem::path& file) {
  const PathEnd place(file.native());
  constexpr int kFlags = O_RDWR | O_APPEND | O_CREAT;
  if (!place) throw cannot_open(file, kFlags, errno);
  return open_at(place.folder(), place.name(), file, kFlags);
}

std::string read_regular(const std::filesystem::path& file, std::size_t most) {
  return read_regular(open_regular(file), file, most);
}

std::string read_regular(const FileDescriptor& descriptor, const std::filesystem::path& file, std::size_t most) {
  struct stat status {};
  const bool is_known = ::fstat(descriptor.get(), &status) == 0;
  require<StorageError>(is_known, "cannot look at \"{}\": {}", file.string(), errno_text(errno));
  check_kind(file, status.st_mode);
  const off_t size = ::lseek(descriptor.get(), 0, SEEK_END);
  if (size > static_cast<off_t>(most))
    throw StorageError(
        fmt::format("\"{}\" has {} bytes, but at most {} were expected: remove it", file.string(), size, most),
        ExitCode::corrupt);
  return read_from(descriptor, file, 0, size);
}

std::string read_end_of_regular(const std::filesystem::path& file, std::size_t most) {
  const FileDescriptor descriptor = open_regular(file);
  const off_t size = ::lseek(descriptor.get(), 0, SEEK_END);
  return read_from(descriptor, file, std::max<off_t>(0, size - static_cast<off_t>(most)), size);
}

}  // namespace distdl
