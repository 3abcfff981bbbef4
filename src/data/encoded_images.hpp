// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <distdl/data/data_set.hpp>
#include <distdl/data/kinds.hpp>

namespace distdl::data {

inline constexpr const char* kEncodedImages = "encoded images";  ///< the name of this kind of data set

/// Labelled images in one HDF5 file as they were encoded: JPEG, PNG, WebP. Not thread-safe.
class EncodedSet {
 public:
  /// Throws as ImageSet::open() does.
  static EncodedSet open(const std::filesystem::path& file, std::int64_t cache_mib);
  EncodedSet(EncodedSet&&) noexcept;
  EncodedSet& operator=(EncodedSet&&) noexcept;
  ~EncodedSet();

  const Description& description() const noexcept;
  const std::string& digest() const noexcept;             ///< see ImageSet
  std::span<const std::int32_t> labels() const noexcept;  ///< one per sample
  /// Replaces `bytes` by the encoded image. Throws as ImageSet::pixels() does.
  void read(std::int64_t index, std::vector<std::byte>& bytes);

 private:
  struct Impl;
  explicit EncodedSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The row of the table of kinds.
Kind encoded_images_kind();

}  // namespace distdl::data
