// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/random.hpp>
#include <distdl/files/own_folder.hpp>

namespace distdl {

bool remove_own_folder(const Path& folder, bool (*is_own)(const std::string& name)) noexcept try {
  const FileDescriptor opened = open_folder(folder.c_str());
  struct stat status {};
  if (!opened || ::fstat(opened.get(), &status) != 0) return false;
  errno = EPERM;
  if (status.st_uid != ::geteuid()) return false;
  const auto names = names_in(FileDescriptor(::openat(opened.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), folder);
  errno = ENOTEMPTY;
  if (!std::ranges::all_of(names, is_own)) return false;
  for (const std::string& name : names)
    if (::unlinkat(opened.get(), name.c_str(), 0) != 0 && errno != ENOENT) return false;
  return real_file_system().rmdir(folder.c_str()) == 0;
} catch (const FileError& error) {
  errno = error.number();
  return false;
} catch (const std::exception& error) {
  errno = ENOMEM;
  return false;
}

ScratchFolder::ScratchFolder(const Path& parent, const std::string& name)
    : path_(parent / fmt::format("{}-{}", name, random_hex(8))) {
  if (real_file_system().mkdir(path_.c_str(), 0700) != 0) throw FileError("make folder", path_, errno);
}

ScratchFolder::~ScratchFolder() {
  remove_tree(real_file_system(), path_);
}

}  // namespace distdl
