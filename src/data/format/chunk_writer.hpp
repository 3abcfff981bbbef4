// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <distdl/data/format/hdf5_rows.hpp>

namespace distdl::data {

/// The target size of chunks. A random sample then reads few unneeded bytes, and large reads are fast.
inline constexpr std::int64_t kChunkBytes = std::int64_t{64} * 1024;

/// Name of the dataset with the checksums of another dataset.
std::string checksum_name(const std::string& dataset);

/// Writes one chunked dataset from beginning to end, and then its checksums. Not thread-safe.
class ChunkWriter {
 public:
  /// Throws StorageError.
  ChunkWriter(const hdf5::File& file, std::string name, StoredNumber type, tensor::Shape shape);
  /// Appends any number of whole rows. Throws ConfigError if there are more than the shape has.
  void append(std::span<const std::byte> rows);
  /// Writes the last chunk and the checksums. Throws ConfigError if rows are missing.
  void finish(const hdf5::File& file);

 private:
  void flush();

  std::string name_;
  StoredNumber type_;
  std::int64_t rows_;
  std::size_t row_bytes_;
  std::int64_t rows_per_chunk_;
  hdf5::Dataset dataset_;
  std::int64_t written_ = 0;
  std::vector<std::byte> pending_;
  std::vector<std::uint32_t> checksums_;
};

}  // namespace distdl::data
