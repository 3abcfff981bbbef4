// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace distdl::data {

/// Detects changes of a data set's file while a run reads it. Not thread-safe.
class SetWatch {
 public:
  /// Records the state of the file. Call it before the set is opened, so that no later change is missed.
  explicit SetWatch(std::filesystem::path file);
  /// Sets the digest of the set at the time when it was opened.
  void opened(std::string digest) { digest_ = std::move(digest); }
  /// Calls only stat() while device, inode, size and times of the file are unchanged. If they change, description and
  /// checksums are read again. An equal digest is logged and accepted. A removed file is also accepted, because the
  /// opened file stays readable. Throws StorageError: incompatible for another digest, or as opening the set does.
  void require_unchanged();

 private:
  struct Identity {
    std::uint64_t device = 0, inode = 0;
    std::int64_t bytes = 0, modified = 0, changed = 0;  ///< times in ns
    bool operator==(const Identity&) const = default;
  };
  std::optional<Identity> look() const;

  std::filesystem::path file_;
  std::optional<Identity> seen_;  ///< empty: there was no such file
  std::string digest_;
};

}  // namespace distdl::data
