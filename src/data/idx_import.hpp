// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include <distdl/data/data_set.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

struct IdxImport {
  std::filesystem::path images;  ///< unsigned bytes in 3 dimensions (N, H, W), plain or gzip
  std::filesystem::path labels;  ///< unsigned bytes in 1 dimension, plain or gzip
  std::filesystem::path output;
  std::int64_t classes = 0;  ///< 0: the highest label + 1
  Overwrite overwrite = Overwrite::refuse;
};

/// Converts MNIST and data sets in the same format to a set of images with one channel (the IDX format:
/// http://yann.lecun.com/exdb/mnist). Throws ConfigError if the files have unexpected contents. Throws StorageError if
/// they are missing, truncated or damaged, or if the output cannot be written.
Description import_idx(const IdxImport& import);

/// Reads and checks as import_idx() does, without writing. `begin` gets the description after both headers and all
/// labels were checked; then `each` gets every image with its label. `begin` throws if such a set is impossible.
void read_idx(const IdxImport& import, const std::function<void(const Description&)>& begin,
              const std::function<void(std::span<const std::uint8_t> pixels, std::int32_t label)>& each);

}  // namespace distdl::data
