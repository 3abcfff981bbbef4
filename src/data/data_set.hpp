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

/// The contents of a data set, as `distdl data info` prints them.
struct Description {
  std::string kind{};              ///< "images" or "tokens"
  std::string origin{};            ///< how it was made: "shapes seed=1", "idx train-images..."
  std::int64_t samples = 0;        ///< number of images or tokens
  tensor::Shape shape{};           ///< shape of one image: (C, H, W); empty for tokens
  std::int64_t classes = 0;        ///< labels are 0 .. classes-1; for tokens this is the vocabulary
  float mean = 0, deviation = 1;   ///< statistics of pixels / 255 over the whole set, for normalization by readers
  std::uint64_t stored_bytes = 0;  ///< size of the file
};

/// A labelled image set in one HDF5 file (docs/data-format.md). It is chunked, and the CRC32C of each chunk is verified
/// when it is read from the file. Labels are read and verified at once. Not thread-safe; each rank has one.
class ImageSet {
 public:
  /// Throws StorageError: incomplete (no such file), corrupt, or incompatible (not a distdl data set). Throws
  /// ConfigError if the set has something other than images, or if cache_mib is negative. Chunks are kept in memory up
  /// to cache_mib, but never less than one.
  static ImageSet open(const std::filesystem::path& file, std::int64_t cache_mib);
  ImageSet(ImageSet&&) noexcept;
  ImageSet& operator=(ImageSet&&) noexcept;
  ~ImageSet();

  const Description& description() const noexcept;
  /// The digest of all data in the set, from the checksums of its chunks: 16 hexadecimal digits.
  const std::string& digest() const noexcept;
  /// One label per sample.
  std::span<const std::int32_t> labels() const noexcept;
  /// images: (indices.size(), C, H, W) floats, (pixel / 255 - mean) / deviation. labels: one per image. Throws
  /// StorageError (corrupt) that names file and chunk, and ConfigError for an index outside the set.
  void read(std::span<const std::int64_t> indices, float* images, std::int32_t* labels);
  /// The normalized value of each stored pixel value: (pixel / 255 - mean) / deviation.
  const std::array<float, 256>& normalized() const noexcept;
  /// The stored pixels of one image, (C, H, W), valid until the next call. Throws as read() does.
  std::span<const std::uint8_t> pixels(std::int64_t index);
  /// The number of chunks read from the file so far. A set that fits into the cache is read once.
  std::int64_t chunk_reads() const noexcept;

 private:
  struct Impl;
  explicit ImageSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A sequence of tokens in one HDF5 file. Each chunk is verified each time it is read from the file. Not thread-safe;
/// each reading thread has one.
class TokenSet {
 public:
  /// Throws as ImageSet::open() does.
  static TokenSet open(const std::filesystem::path& file);
  TokenSet(TokenSet&&) noexcept;
  TokenSet& operator=(TokenSet&&) noexcept;
  ~TokenSet();

  const Description& description() const noexcept;
  const std::string& digest() const noexcept;  ///< see ImageSet
  /// Reads tokens first .. first + tokens.size() - 1. Throws StorageError (corrupt) that names file and chunk, and
  /// ConfigError for positions outside the set.
  void read(std::int64_t first, std::span<std::int32_t> tokens);

 private:
  struct Impl;
  explicit TokenSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The description of any kind of set. Throws as ImageSet::open() does.
Description describe_file(const std::filesystem::path& file);

/// The digest of any kind of set from the present contents of its file, even if other handles have it open. Throws as
/// ImageSet::open() does.
std::string digest_of_file(const std::filesystem::path& file);

struct Verification {
  std::int64_t chunks = 0;          ///< chunks read from all datasets
  std::vector<std::string> damage;  ///< one line per damaged chunk or checksum table, with file, dataset and chunk
};

/// Reads every chunk of any kind of set. Throws as ImageSet::open() does if the description itself cannot be read.
Verification verify_file(const std::filesystem::path& file);

}  // namespace distdl::data
