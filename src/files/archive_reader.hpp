// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <distdl/base/file_descriptor.hpp>

struct archive;

namespace distdl {

/// The regular files of an archive in their order, by libarchive. Nothing is unpacked to a path. Not thread-safe.
class ArchiveReader {
 public:
  enum class Format { tar, zip };  ///< tar: of POSIX or GNU, plain, gzip or zstd; zip: with its directory at the end

  /// Throws StorageError.
  ArchiveReader(std::filesystem::path file, Format format);
  ~ArchiveReader();
  ArchiveReader(ArchiveReader&&) noexcept;

  /// Goes to the next file; false: there is none. Throws StorageError, corrupt for what is no such archive; and
  /// ConfigError for links, and for paths that are absolute or have "..".
  bool next();
  const std::string& name() const noexcept { return name_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// The next bytes of the present file; fewer than there is room for only at its end. Throws StorageError.
  std::size_t read(std::span<std::byte> bytes);
  /// The whole present file, of which nothing was read yet; call it once. Throws StorageError, also if it has more than
  /// `most` bytes.
  std::vector<std::byte> read(std::size_t most);

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path file_;
  Format format_;
  FileDescriptor descriptor_;
  std::unique_ptr<archive, int (*)(archive*)> reader_;
  std::string name_;
  std::uint64_t bytes_ = 0;
};

}  // namespace distdl
