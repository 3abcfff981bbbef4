// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace distdl::launch {

/// Who holds a run folder, as its file LOCK says.
struct Holder {
  std::string host, boot, pid_space;  ///< where `pid` means something
  std::int64_t pid = 0;
  std::int64_t started = 0;  ///< of the process, in clock ticks since the boot
  std::string cluster, job;  ///< of Slurm; empty: none
  std::int64_t restart = 0;  ///< how often Slurm has requeued the job
  std::int64_t since = 0;    ///< seconds since 1970
  std::string nonce;         ///< unlike that of any other start

  /// This process.
  static Holder self();
};

std::string to_text(const Holder& holder);
/// Nothing if the text is none that to_text made.
std::optional<Holder> holder_from(const std::string& text);

/// A holder that showed no sign of life for longer is gone, unless Slurm says that its job is suspended.
inline constexpr std::chrono::seconds kLongestSilence{60};

/// Whether what held the folder is gone for sure, seen by `self`: an earlier run of the same Slurm job; a process of
/// this machine that has ended; a job of the same cluster that has; one without a sign of life, which came `age` ago.
bool is_gone(const Holder& holder, const Holder& self, std::chrono::seconds age);

/// The right of one "distdl run" to a run folder. Its file LOCK there says who has it; a thread renews the file's time.
/// It keeps honest starts apart. What must not be written by a zombie is fenced by the OWNER of the checkpoints.
class FolderLock {
 public:
  /// Throws StorageError (superseded) if another start has the folder and is not gone, unless `take_over`. Where the
  /// file cannot be written, warns and does without.
  FolderLock(const std::filesystem::path& folder, bool take_over);
  /// Removes the file if it is still this start's.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Another start has taken the folder over, as far as it was noticed. Never blocks.
  bool is_lost() const;
  /// The same, looked at now.
  bool check();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distdl::launch
