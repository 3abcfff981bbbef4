// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include <zlib.h>

#include <distdl/base/handles.hpp>

namespace distdl::data {

void close_gzip(gzFile file) noexcept;
using GzipFile = UniqueHandle<gzFile, &close_gzip>;

/// Reads a file front to back, decompressing it if it is gzip and as it is if not.
class GzipReader {
 public:
  /// Throws StorageError incomplete (no such file) or storage.
  explicit GzipReader(std::filesystem::path path);
  /// As many bytes as there are, at most bytes.size(); fewer only at the end. Throws StorageError corrupt if a gzip
  /// file is cut off or its content does not match its checksum.
  std::size_t read(std::span<std::byte> bytes);
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  GzipFile file_;
};

}  // namespace distdl::data
