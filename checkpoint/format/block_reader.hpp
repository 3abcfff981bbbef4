// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {

/// A box of a stored tensor that is to be written to `out`, dense and row-major.
struct WantedBox {
  const StoredTensor* stored = nullptr;
  tensor::Box box;
  std::byte* out = nullptr;
};

/// Fills all boxes with `threads` threads. A block is read once for each box that needs it, and used only after its
/// checksum is verified. Throws StorageError as TensorReader::read does; the contents of `out` are then undefined.
void read_boxes(FileSystem& files, const Path& folder, const Manifest& manifest, std::span<const WantedBox> wanted,
                std::size_t threads, PageCache cache);

}  // namespace distdl::checkpoint
