// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/random.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/files/temporary_folder.hpp>
#include <distdl/launch/rendezvous.hpp>

namespace distdl::launch {
namespace {
namespace fs = std::filesystem;

/// Prefix of the names of this user's folders, each of which is locked while its process lives. (Folders of earlier
/// versions have no lock, and no "launch" in their name.)
std::string prefix() {
  return fmt::format("distdl-launch-{}-", ::getuid());
}

/// Removes the folder if no process holds its lock. Errors are only logged, because a start does not depend on this.
void remove_abandoned(const fs::path& path) try {
  const auto folder = PrivateFolder::open(path);
  if (folder && ::flock(folder->descriptor(), LOCK_EX | LOCK_NB) == 0) folder->remove();
} catch (const StorageError& error) {
  log(Severity::debug, "{}", error.what());
}

void sweep(const fs::path& parent) {
  std::error_code error;
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().filename().string().starts_with(prefix())) remove_abandoned(entry->path());
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
bool Rendezvous::make(const fs::path& path) try {
  folder_ = PrivateFolder::make(path);
  struct stat status {};
  // A file system without locks has no sweeps either.
  const bool locked = ::flock(folder_->descriptor(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  return locked && ::fstat(folder_->descriptor(), &status) == 0 && status.st_nlink > 0;
} catch (const StorageError& error) {
  throw StorageError(fmt::format("{}; set TMPDIR to a writable folder", error.what()));
}

Rendezvous::~Rendezvous() {
  try {
    folder_->remove();
  } catch (const StorageError& error) {
    log(Severity::warning, "{}", error.what());
  }
}

}  // namespace distdl::launch
