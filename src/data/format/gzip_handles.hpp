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

/// Reads a file from beginning to end, and decompresses it if it is gzip.
class GzipReader {
 public:
  /// Throws StorageError: incomplete (no such file) or storage.
  explicit GzipReader(std::filesystem::path path);
  /// Reads at most bytes.size() bytes; fewer only at the end. Throws StorageError (corrupt) if a gzip file is truncated
  /// or does not match its checksum.
  std::size_t read(std::span<std::byte> bytes);
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  GzipFile file_;
  z_off_t counted_ = 0;  ///< bytes of the file that are reported to work_done()
};

}  // namespace distdl::data
