// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include <distdl/base/regular_file.hpp>
#include <distdl/files/unfinished_file.hpp>

namespace distdl::data {

/// A file that appears under its name only when it is complete. It is written under a temporary name in the same
/// folder, fsynced and renamed. A killed writer leaves at most the temporary file, ".NAME.partial-PID"; an interrupted
/// one removes it (RemovesUnfinishedFiles).
class StagedFile {
 public:
  /// Throws ConfigError if the file exists and `overwrite` is Overwrite::refuse. Throws StorageError if there is a
  /// FIFO, folder or device of this name, or no folder for it.
  StagedFile(std::filesystem::path target, Overwrite overwrite);
  /// Removes the temporary file unless it was published.
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  /// The temporary file to write. It does not exist yet.
  const std::filesystem::path& temporary() const noexcept { return temporary_; }
  const std::filesystem::path& target() const noexcept { return target_; }
  /// Call it once, after the temporary file was closed. Throws StorageError (storage), and ConfigError if the target
  /// was created meanwhile and may not be replaced.
  void publish();

 private:
  std::filesystem::path target_, temporary_;
  std::optional<UnfinishedFile> unfinished_;
  Overwrite overwrite_;
  bool published_ = false;
};

}  // namespace distdl::data
