// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

#include <distdl/base/path_end.hpp>

namespace distdl {

PathEnd::PathEnd(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path.starts_with('/')) enter("/");
  for (auto slash = path.find('/'); is_open_ && slash != std::string_view::npos; slash = path.find('/')) {
    if (slash > 0) enter(std::string(path.substr(0, slash)));
    path.remove_prefix(slash + 1);
  }
  name_ = path;
}

int PathEnd::folder() const {
  return folder_ ? folder_.get() : AT_FDCWD;
}

void PathEnd::enter(const std::string& name) {
  FileDescriptor next(::openat(folder(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  is_open_ = static_cast<bool>(next);
  if (is_open_) {
    folder_ = std::move(next);
    return;
  }
  struct stat status {};
  const int number = errno;
  const bool is_link = ::fstatat(folder(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
  errno = is_link ? ELOOP : number;
}

std::filesystem::path link_on(const std::filesystem::path& path) {
  std::filesystem::path there;
  std::error_code ignored;
  for (const auto& name : path)
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(there /= name, ignored))) return there;
  return {};
}

}  // namespace distdl
