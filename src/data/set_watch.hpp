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
  /// Records the state of the file. To be called before the set is opened, so that no later change is missed.
  explicit SetWatch(std::filesystem::path file);
  /// The digest of the set as it was opened.
  void opened(std::string digest) { digest_ = std::move(digest); }
  /// Costs one stat() while device, inode, size and times of the file stay the same. If they change, description and
  /// checksums are read again. An equal digest is logged and accepted. So is a file that is gone, since the opened file
  /// stays readable. Throws StorageError: incompatible for another digest, or what opening the set throws.
  void require_unchanged();

 private:
  struct Identity {
    std::uint64_t device = 0, inode = 0;
    std::int64_t bytes = 0, modified = 0, changed = 0;  ///< times in ns
    bool operator==(const Identity&) const = default;
  };
  std::optional<Identity> look() const;

  std::filesystem::path file_;
  std::optional<Identity> seen_;  ///< nothing: there was no such file
  std::string digest_;
};

}  // namespace distdl::data
