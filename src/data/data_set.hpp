// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <distdl/tensor/shape.hpp>

namespace distdl::data {

/// What `distdl data info` prints.
struct Description {
  std::string kind;               ///< "images" or "tokens"
  std::string origin;             ///< how it was made: "shapes seed=1", "idx train-images..."
  std::int64_t samples = 0;       ///< images, or tokens
  tensor::Shape shape;            ///< of one image: (C, H, W); empty for tokens
  std::int64_t classes = 0;       ///< labels are 0 .. classes-1; for tokens the vocabulary
  float mean = 0, deviation = 1;  ///< of pixels / 255 over the whole set; readers normalize with them
  std::uint64_t stored_bytes = 0;
};

/// A labelled image set in one HDF5 file (docs/data-format.md): chunked, each chunk with a CRC32C that is checked when
/// it is first read. Not thread-safe; one per rank.
class ImageSet {
 public:
  /// Throws StorageError: incomplete (no such file), corrupt, or incompatible (not a distdl image set).
  static ImageSet open(const std::filesystem::path& file, std::int64_t cache_mib);
  ImageSet(ImageSet&&) noexcept;
  ImageSet& operator=(ImageSet&&) noexcept;
  ~ImageSet();

  const Description& description() const noexcept;
  /// images: (indices.size(), C, H, W) floats, (pixel / 255 - mean) / deviation. labels: one each.
  /// Throws StorageError corrupt naming file and chunk.
  void read(std::span<const std::int64_t> indices, float* images, std::int32_t* labels);

 private:
  struct Impl;
  explicit ImageSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Any kind of set. Throws as ImageSet::open.
Description describe_file(const std::filesystem::path& file);

}  // namespace distdl::data
