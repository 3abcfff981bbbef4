// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace distdl::launch {

/// The holder of a run folder, according to its file LOCK.
struct Holder {
  std::string host, boot, pid_space;  ///< the place where `pid` is valid
  std::int64_t pid = 0;
  std::int64_t started = 0;  ///< start of the process, in clock ticks since the boot
  std::string cluster, job;  ///< name of the Slurm cluster, id of the Slurm job; empty: none
  std::int64_t restart = 0;  ///< how often Slurm has requeued the job
  std::int64_t since = 0;    ///< seconds since 1970
  std::string nonce;         ///< random, unique to the start

  /// The description of this process.
  static Holder self();
};

std::string to_text(const Holder& holder);
/// Returns nothing if to_text() did not make the text.
std::optional<Holder> holder_from(const std::string& text);

/// A holder that has not renewed the lock for longer is gone, unless Slurm reports its job as suspended.
inline constexpr std::chrono::seconds kLongestSilence{60};

/// Whether the holder is certainly gone, from the view of `self`: an earlier run of the same Slurm job, a process of
/// this machine that has ended, a job of the same cluster that has ended, or a holder that has not renewed the lock for
/// too long. `age`: time since the last renewal.
bool is_gone(const Holder& holder, const Holder& self, std::chrono::seconds age);

/// The lock of one "distdl run" on a run folder. The file LOCK there names the holder; a thread renews the file's time.
/// The lock is advisory. Writes that a zombie must not make are fenced by OWNER, see checkpoint::Owner.
class FolderLock {
 public:
  /// Throws StorageError (superseded) if another start holds the folder and is not gone, unless `take_over`. If the
  /// file cannot be written, logs a warning and works without a lock.
  FolderLock(const std::filesystem::path& folder, bool take_over);
  /// Removes the file if it still belongs to this start.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Whether another start is known to have taken over the folder. Never blocks.
  bool is_lost() const;
  /// Reads the file now and returns whether another start has taken over the folder.
  bool check();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distdl::launch
