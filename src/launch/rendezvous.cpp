// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/random.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/files/temporary_folder.hpp>
#include <distdl/launch/rendezvous.hpp>

namespace distdl::launch {
namespace {
namespace fs = std::filesystem;

/// Of the folders of this user that are locked while their process lives. (Those of earlier versions had no lock, and
/// no "launch" in their name.)
std::string prefix() {
  return fmt::format("distdl-launch-{}-", ::getuid());
}

FileDescriptor open_folder(const fs::path& folder) {
  return FileDescriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/// Whether it is a private folder of this user whose lock can be had, which then is so as long as `descriptor` is open.
bool is_abandoned(const FileDescriptor& descriptor) {
  struct stat status {};
  return descriptor && ::fstat(descriptor.get(), &status) == 0 && status.st_uid == ::getuid() &&
         (status.st_mode & 0077) == 0 && ::flock(descriptor.get(), LOCK_EX | LOCK_NB) == 0;
}

void sweep(const fs::path& parent) {
  std::error_code error;  // litter is no reason not to start
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix())) continue;
    const FileDescriptor folder = open_folder(entry->path());
    if (is_abandoned(folder)) remove_tree(real_file_system(), entry->path());
  }
}
}  // namespace

Rendezvous::Rendezvous() {
  const fs::path parent = resolved(temporary_folder());  // TMPDIR may be a link
  sweep(parent);
  constexpr int kAttempts = 10;
  for (int i = 0; i < kAttempts; ++i)
    if (make(parent / (prefix() + random_hex(8)))) return;
  throw StorageError(
      fmt::format("{} folders in \"{}\" were removed as soon as they were created", kAttempts, parent.string()));
}

/// False if a sweep got between creation and lock.
bool Rendezvous::make(const fs::path& folder) {
  const bool made = ::mkdir(folder.c_str(), 0700) == 0;
  require<StorageError>(made, "cannot make the folder \"{}\": {}; set TMPDIR to a writable folder", folder.string(),
                        errno_text(errno));
  lock_ = open_folder(folder);
  struct stat status {};
  // A file system without locks has no sweeps either.
  const bool locked = lock_ && (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
  if (!locked || ::fstat(lock_.get(), &status) != 0 || status.st_nlink == 0) return false;
  folder_ = folder;
  return true;
}

Rendezvous::~Rendezvous() {
  remove_tree(real_file_system(), folder_);
}

}  // namespace distdl::launch
