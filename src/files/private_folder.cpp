// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/files/private_folder.hpp>

namespace distdl {
namespace {
namespace fs = std::filesystem;

constexpr int kFolder = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr mode_t kOthers = 0077, kOthersWrite = 0022;

[[noreturn]] void fail(std::string_view purpose, const fs::path& path, int number) {
  throw StorageError(fmt::format("cannot {} \"{}\": {}", purpose, path.string(), errno_text(number)));
}

void require_own(const struct stat& status, const fs::path& path) {
  require<StorageError>(status.st_uid == ::geteuid(),
                        "\"{}\" belongs to user {}, but only what belongs to user {} is trusted here", path.string(),
                        status.st_uid, ::geteuid());
}

void require_unwritable(const struct stat& status, const fs::path& path) {
  require<StorageError>((status.st_mode & kOthersWrite) == 0,
                        "other users may write to \"{}\" (mode {:o}): use a folder on a file system that keeps modes",
                        path.string(), status.st_mode & 07777);
}

/// Says what stands in the place of a folder that could not be opened.
[[noreturn]] void fail_to_open(int parent, const char* name, const fs::path& path, int number) {
  struct stat status {};
  const bool is_known = ::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
  require<StorageError>(!is_known || S_ISDIR(status.st_mode), "\"{}\" is {}, but a folder was expected: remove it",
                        path.string(), kind_of(status.st_mode));
  if (is_known && number == EACCES) require_own(status, path);
  fail("open the folder", path, number);
}

void make_with_parents(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0777) == 0 || errno == EEXIST) return;
  const fs::path parent = folder.parent_path();
  if (errno != ENOENT || parent.empty() || parent == folder) fail("make the folder", folder, errno);
  make_with_parents(parent);
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) fail("make the folder", folder, errno);
}

/// Nothing if there is none.
FileDescriptor open_parent(const fs::path& parent) {
  const fs::path path = parent.empty() ? fs::path(".") : parent;
  FileDescriptor descriptor(::open(path.c_str(), O_PATH | kFolder));  // it may be unreadable
  if (!descriptor && errno != ENOENT) fail_to_open(AT_FDCWD, path.c_str(), path, errno);
  return descriptor;
}

/// Another process may remove it in between.
FileDescriptor make_and_open(int parent, const char* name, const fs::path& path) {
  constexpr int kAttempts = 10;
  for (int i = 0; i < kAttempts; ++i) {
    if (::mkdirat(parent, name, 0700) != 0 && errno != EEXIST) fail("make the folder", path, errno);
    FileDescriptor made(::openat(parent, name, O_RDONLY | kFolder));
    if (made) return made;
    if (errno != ENOENT) break;
  }
  fail_to_open(parent, name, path, errno);
}

struct stat status_of(const FileDescriptor& folder, const fs::path& path) {
  struct stat status {};
  if (::fstat(folder.get(), &status) != 0) fail("look at", path, errno);
  return status;
}

FileDescriptor open_again(int folder) {  // with a position of its own
  return FileDescriptor(::openat(folder, ".", O_RDONLY | kFolder));
}

/// Links are removed, never followed. An entry that is gone already is no failure.
void remove_entries(int folder, const std::vector<std::string>& names, const fs::path& path) {
  for (const std::string& name : names) {
    if (::unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT) continue;
    if (errno != EISDIR && errno != EPERM) fail("remove", path / name, errno);
    const FileDescriptor inner(::openat(folder, name.c_str(), O_RDONLY | kFolder));
    if (!inner) fail("remove", path / name, errno);
    remove_entries(inner.get(), names_in(open_again(inner.get()), path / name), path / name);
    if (::unlinkat(folder, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) fail("remove", path / name, errno);
  }
}

void write_all(int file, const std::string& text, const fs::path& path) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(file, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("write", path, count < 0 ? errno : ENOSPC);
    done += static_cast<std::size_t>(count);
  }
}
}  // namespace

PrivateFolder::PrivateFolder(fs::path path, FileDescriptor parent, FileDescriptor folder)
    : path_(std::move(path)), parent_(std::move(parent)), folder_(std::move(folder)) {}

PrivateFolder PrivateFolder::make(const fs::path& folder) {
  const std::string name = folder.filename().string();
  FileDescriptor parent = open_parent(folder.parent_path());
  if (!parent) {
    make_with_parents(folder.parent_path());
    parent = open_parent(folder.parent_path());
  }
  if (!parent) fail("open the folder", folder.parent_path(), ENOENT);
  FileDescriptor made = make_and_open(parent.get(), name.c_str(), folder);
  auto status = status_of(made, folder);
  require_own(status, folder);
  if ((status.st_mode & kOthers) != 0) {  // it was there, or the folder around it has an ACL for new ones
    if (::fchmod(made.get(), 0700) != 0) fail("close to other users", folder, errno);
    status = status_of(made, folder);
  }
  require_unwritable(status, folder);
  return {folder, std::move(parent), std::move(made)};
}

std::optional<PrivateFolder> PrivateFolder::open(const fs::path& folder) {
  FileDescriptor parent = open_parent(folder.parent_path());
  if (!parent) return std::nullopt;
  const std::string name = folder.filename().string();
  FileDescriptor found(::openat(parent.get(), name.c_str(), O_RDONLY | kFolder));
  if (!found && errno == ENOENT) return std::nullopt;
  if (!found) fail_to_open(parent.get(), name.c_str(), folder, errno);
  const auto status = status_of(found, folder);
  require_own(status, folder);
  require_unwritable(status, folder);
  return PrivateFolder(folder, std::move(parent), std::move(found));
}

std::vector<std::string> PrivateFolder::names() const {
  FileDescriptor again(::openat(parent_.get(), path_.filename().c_str(), O_RDONLY | kFolder));
  if (!again) fail("read the folder", path_, errno);
  const auto own = status_of(folder_, path_), named = status_of(again, path_);
  require<StorageError>(own.st_dev == named.st_dev && own.st_ino == named.st_ino, "\"{}\" was replaced meanwhile",
                        path_.string());
  return names_in(std::move(again), path_);
}

std::string PrivateFolder::read(const std::string& name, std::size_t most) const {
  const fs::path path = path_ / name;
  const FileDescriptor file(::openat(folder_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ELOOP) throw FileError(path, S_IFLNK, "a regular file");
  if (!file)
    throw StorageError(fmt::format("cannot open \"{}\": {}", path.string(), errno_text(errno)),
                       errno == ENOENT ? ExitCode::incomplete : ExitCode::storage);
  require_own(status_of(file, path), path);
  return read_regular(file, path, most);
}

std::string PrivateFolder::write_aside(const std::string& name, const std::string& text, bool sync) const {
  std::string aside = fmt::format(".{}.{}", name, random_hex(8));
  const FileDescriptor file(
      ::openat(folder_.get(), aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) fail("create", path_ / aside, errno);
  try {
    write_all(file.get(), text, path_ / aside);
    if (sync && ::fsync(file.get()) != 0) fail("write", path_ / aside, errno);
  } catch (...) {
    ::unlinkat(folder_.get(), aside.c_str(), 0);
    throw;
  }
  return aside;
}

void PrivateFolder::put(const std::string& name, const std::string& text) const {
  const std::string aside = write_aside(name, text, false);
  if (::renameat(folder_.get(), aside.c_str(), folder_.get(), name.c_str()) == 0) return;
  const int number = errno;
  ::unlinkat(folder_.get(), aside.c_str(), 0);
  fail("make", path_ / name, number);
}

bool PrivateFolder::create(const std::string& name, const std::string& text) const {
  const std::string aside = write_aside(name, text, true);
  const int linked = ::linkat(folder_.get(), aside.c_str(), folder_.get(), name.c_str(), 0) == 0 ? 0 : errno;
  ::unlinkat(folder_.get(), aside.c_str(), 0);
  if (linked != 0 && linked != EEXIST) fail("make", path_ / name, linked);
  return linked == 0;
}

void PrivateFolder::remove() const {
  remove_entries(folder_.get(), names(), path_);
  if (::unlinkat(parent_.get(), path_.filename().c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
    fail("remove the folder", path_, errno);
}

}  // namespace distdl
