// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <distdl/base/regular_file.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/files/unfinished_file.hpp>

namespace distdl {

/// A new file that is written from beginning to end. It has a temporary name until it is complete.
class WholeFile {
 public:
  /// Throws UsageError if the file exists and must not be replaced, and StorageError if it cannot be created.
  WholeFile(FileSystem& files, Path path, Overwrite overwrite);
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  /// Removes the file unless it was published. An interrupt removes it, too (RemovesUnfinishedFiles).
  ~WholeFile();

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  /// Overwrites bytes that were appended before.
  void rewrite(std::string_view text, std::uint64_t offset);
  std::uint64_t size() const noexcept { return size_; }
  /// The temporary name, for a library that writes the file itself.
  const Path& unfinished() const noexcept { return unfinished_; }
  /// Syncs the file and gives it its name.
  void publish();

 private:
  template <class Work>
  void name_in_errors(const char* purpose, Work&& work);

  FileSystem& files_;
  Path path_, unfinished_;
  std::optional<UnfinishedFile> removed_by_interrupt_;
  std::optional<OpenFile> file_;
  std::uint64_t size_ = 0;
};

}  // namespace distdl
