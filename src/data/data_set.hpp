// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <distdl/tensor/shape.hpp>

namespace distdl::data {

/// What `distdl data info` prints.
struct Description {
  std::string kind{};              ///< "images" or "tokens"
  std::string origin{};            ///< how it was made: "shapes seed=1", "idx train-images..."
  std::int64_t samples = 0;        ///< images, or tokens
  tensor::Shape shape{};           ///< of one image: (C, H, W); empty for tokens
  std::int64_t classes = 0;        ///< labels are 0 .. classes-1; for tokens the vocabulary
  float mean = 0, deviation = 1;   ///< of pixels / 255 over the whole set; readers normalize with them
  std::uint64_t stored_bytes = 0;  ///< size of the file
};

/// A labelled image set in one HDF5 file (docs/data-format.md): chunked, each chunk with a CRC32C that is checked when
/// it is read from the file; labels are read and checked at once. Not thread-safe; one per rank.
class ImageSet {
 public:
  /// Throws StorageError: incomplete (no such file), corrupt, or incompatible (not a distdl data set); ConfigError if
  /// the set holds something other than images or if cache_mib is negative. Chunks are kept in memory up to cache_mib,
  /// but never less than one.
  static ImageSet open(const std::filesystem::path& file, std::int64_t cache_mib);
  ImageSet(ImageSet&&) noexcept;
  ImageSet& operator=(ImageSet&&) noexcept;
  ~ImageSet();

  const Description& description() const noexcept;
  /// Of all that a reader gets from the set, by the checksums of its chunks: 16 hexadecimal digits.
  const std::string& digest() const noexcept;
  /// One per sample.
  std::span<const std::int32_t> labels() const noexcept;
  /// images: (indices.size(), C, H, W) floats, (pixel / 255 - mean) / deviation. labels: one each.
  /// Throws StorageError corrupt naming file and chunk, ConfigError for an index outside the set.
  void read(std::span<const std::int64_t> indices, float* images, std::int32_t* labels);
  /// What a stored pixel becomes: (pixel / 255 - mean) / deviation.
  const std::array<float, 256>& normalized() const noexcept;
  /// The pixels of one image as stored, (C, H, W); valid until the next call. Throws as read().
  std::span<const std::uint8_t> pixels(std::int64_t index);
  /// Chunks of images read from the file so far; a set that fits the cache is read once.
  std::int64_t chunk_reads() const noexcept;

 private:
  struct Impl;
  explicit ImageSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A sequence of tokens in one HDF5 file; each chunk is verified each time it is read from the file. Not thread-safe;
/// one per thread that reads.
class TokenSet {
 public:
  /// Throws as ImageSet::open.
  static TokenSet open(const std::filesystem::path& file);
  TokenSet(TokenSet&&) noexcept;
  TokenSet& operator=(TokenSet&&) noexcept;
  ~TokenSet();

  const Description& description() const noexcept;
  const std::string& digest() const noexcept;  ///< as of ImageSet
  /// Tokens first .. first + tokens.size() - 1. Throws StorageError corrupt naming file and chunk, ConfigError for
  /// places outside of the set.
  void read(std::int64_t first, std::span<std::int32_t> tokens);

 private:
  struct Impl;
  explicit TokenSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Any kind of set. Throws as ImageSet::open.
Description describe_file(const std::filesystem::path& file);

/// Of any kind of set, as its file is now, whoever has it open. Throws as ImageSet::open.
std::string digest_of_file(const std::filesystem::path& file);

struct Verification {
  std::int64_t chunks = 0;          ///< read, over all datasets
  std::vector<std::string> damage;  ///< one line per damaged chunk or checksum table, naming file, dataset and chunk
};

/// Reads every chunk of any kind of set. Throws as ImageSet::open if the description itself cannot be read.
Verification verify_file(const std::filesystem::path& file);

}  // namespace distdl::data
