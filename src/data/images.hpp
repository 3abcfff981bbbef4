// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <distdl/data/data_set.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/data/normalization.hpp>

namespace distdl::data {

inline constexpr const char* kImages = "images";  ///< the name of this kind of data set

/// A labelled image set in one HDF5 file (docs/data-format.md). It is chunked, and the CRC32C of each chunk is verified
/// when it is read from the file. Labels are read and verified at once. Not thread-safe; each rank has one.
class ImageSet {
 public:
  /// Throws as describe_file() does. Throws ConfigError if the set has something other than images, or if cache_mib is
  /// negative. Chunks are kept in memory up to cache_mib, but never less than one.
  static ImageSet open(const std::filesystem::path& file, std::int64_t cache_mib,
                       Normalization normalization = Normalization::set);
  ImageSet(ImageSet&&) noexcept;
  ImageSet& operator=(ImageSet&&) noexcept;
  ~ImageSet();

  const Description& description() const noexcept;
  /// The digest of all data in the set, from the checksums of its chunks: 16 hexadecimal digits.
  const std::string& digest() const noexcept;
  /// One label per sample.
  std::span<const std::int32_t> labels() const noexcept;
  /// images: (indices.size(), C, H, W) floats, normalized(). labels: one per image. Throws
  /// StorageError (corrupt) that names file and chunk, and ConfigError for an index outside the set.
  void read(std::span<const std::int64_t> indices, float* images, std::int32_t* labels);
  /// The normalized value of each stored pixel value.
  const PixelTables& normalized() const noexcept;
  /// The stored pixels of one image, (C, H, W), valid until the next call. Throws as read() does.
  std::span<const std::uint8_t> pixels(std::int64_t index);
  /// The number of chunks read from the file so far. A set that fits into the cache is read once.
  std::int64_t chunk_reads() const noexcept;

 private:
  struct Impl;
  explicit ImageSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The row of the table of kinds.
Kind images_kind();

}  // namespace distdl::data
