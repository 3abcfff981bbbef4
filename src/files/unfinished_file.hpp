// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>

// Files that are not whole yet, and the signals that end a command meanwhile.
namespace distdl {

/// The name of a file that an interrupt removes, as long as this object lives. Thread-safe.
class UnfinishedFile {
 public:
  /// With a longer name than the system takes, or beside many others, nothing is removed.
  explicit UnfinishedFile(const std::filesystem::path& file) noexcept;
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

 private:
  std::size_t slot_;
};

/// While it lives, SIGINT, SIGTERM and SIGHUP first remove the unfinished files of this process and say on stderr, in
/// the place of a progress bar, that the command was interrupted; then they end the process, as ever. A signal that was
/// ignored stays so. For the main thread of a command that has no other use for these signals, one at a time.
class RemovesUnfinishedFiles {
 public:
  RemovesUnfinishedFiles() noexcept;
  ~RemovesUnfinishedFiles();
  RemovesUnfinishedFiles(const RemovesUnfinishedFiles&) = delete;
  RemovesUnfinishedFiles& operator=(const RemovesUnfinishedFiles&) = delete;
};

}  // namespace distdl
