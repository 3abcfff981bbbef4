// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <distdl/data/format/hdf5_rows.hpp>

namespace distdl::data {

/// Verified chunks of one dataset; the most recently used ones are kept in memory. A chunk is copied before it is
/// verified. If the file is changed later, readers therefore still get only bytes that match the checksum table as it
/// was at the start. Not thread-safe. The file stays open as long as the dataset, independently of the handle given
/// here.
class ChunkReader {
 public:
  /// Keeps at least one chunk, whatever `cache_bytes` is. Throws StorageError (corrupt) if the dataset does not have
  /// the given shape and type, or if its checksum table is damaged.
  ChunkReader(const hdf5::File& file, std::string file_name, std::string name, StoredNumber type, tensor::Shape shape,
              std::size_t cache_bytes);

  std::int64_t chunks() const noexcept { return static_cast<std::int64_t>(checksums_.size()); }
  std::int64_t rows_per_chunk() const noexcept { return rows_per_chunk_; }
  std::int64_t rows() const noexcept { return rows_; }
  std::size_t row_bytes() const noexcept { return row_bytes_; }
  /// The checksums of all chunks at the time when the file was opened.
  std::span<const std::uint32_t> checksums() const noexcept { return checksums_; }
  /// Number of chunks read from the file so far.
  std::int64_t reads() const noexcept { return reads_; }

  /// The whole rows of a chunk, valid until the next call. Throws StorageError (corrupt) that names file, dataset and
  /// chunk.
  std::span<const std::byte> chunk(std::int64_t number);

 private:
  struct Cached {
    std::int64_t number;
    std::vector<std::byte> bytes;
  };
  void verify(std::span<const std::byte> bytes, std::int64_t number) const;
  std::size_t bytes_of(std::int64_t number) const;

  std::string file_name_, name_;
  StoredNumber type_;
  std::int64_t rows_;
  std::size_t row_bytes_;
  std::size_t cache_bytes_;
  hdf5::Dataset dataset_;
  std::int64_t rows_per_chunk_;
  std::vector<std::uint32_t> checksums_;
  std::list<Cached> recent_;  // most recently used first
  std::unordered_map<std::int64_t, std::list<Cached>::iterator> cached_;
  std::size_t used_bytes_ = 0;
  std::int64_t reads_ = 0;
};

}  // namespace distdl::data
