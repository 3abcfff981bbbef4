// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>
#include <distdl/checkpoint/slice.hpp>

namespace distdl::checkpoint {

/// A box of a stored tensor, to be put dense and row-major at `out`.
struct WantedBox {
  const StoredTensor* stored = nullptr;
  tensor::Box box;
  std::byte* out = nullptr;
};

/// Fills all of them with `threads` threads, reading each block that any of them needs once for each, and using it only
/// when its checksum holds. Throws StorageError as TensorReader::read does; then `out` holds anything.
void read_boxes(FileSystem& files, const Path& folder, const Manifest& manifest, std::span<const WantedBox> wanted,
                std::size_t threads, PageCache cache);

}  // namespace distdl::checkpoint
