// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {

/// The checksum of a block is wrong.
class BlockDamage : public StorageError {
 public:
  BlockDamage(const std::string& message, std::uint32_t expected, std::uint32_t found)
      : StorageError(message, ExitCode::corrupt), expected_(expected), found_(found) {}
  std::uint32_t expected() const noexcept { return expected_; }
  std::uint32_t found() const noexcept { return found_; }

 private:
  std::uint32_t expected_, found_;
};

/// Bytes of a block of a box before compression.
std::size_t bytes_of_block(const StoredTensor& stored, const StoredBox& box, std::size_t number);

/// Memory that is reused to read compressed blocks, or blocks past the page cache.
struct Scratch {
  std::vector<std::byte> stored, plain;
};

/// Fills `out`, which has bytes_of_block() bytes, with block `number` of the box. The stored bytes are checked before
/// they are decompressed, and the result is checked again. Throws BlockDamage or another StorageError (corrupt) that
/// names file, tensor and block. `past_cache` is the same file opened past the page cache, for blocks whose alignment
/// allows it; it may be nullptr.
void read_block(OpenFile& file, const StoredTensor& stored, const StoredBox& box, std::size_t number,
                std::span<std::byte> out, Scratch& scratch, OpenFile* past_cache = nullptr);

}  // namespace distdl::checkpoint
