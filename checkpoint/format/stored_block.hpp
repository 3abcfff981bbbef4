// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/io/file_operations.hpp>

namespace distdl::checkpoint {

/// A block's checksum does not hold.
class BlockDamage : public StorageError {
 public:
  BlockDamage(const std::string& message, std::uint32_t expected, std::uint32_t found)
      : StorageError(message, ExitCode::corrupt), expected_(expected), found_(found) {}
  std::uint32_t expected() const noexcept { return expected_; }
  std::uint32_t found() const noexcept { return found_; }

 private:
  std::uint32_t expected_, found_;
};

/// Bytes of a block of a box, uncompressed.
std::size_t bytes_of_block(const StoredTensor& stored, const StoredBox& box, std::size_t number);

/// Memory that reading compressed blocks, or blocks past the page cache, needs, kept for the next one.
struct Scratch {
  std::vector<std::byte> stored, plain;
};

/// Fills `out`, which is bytes_of_block() long, with block `number` of the box. What is stored is checked before
/// anything is made of it, and what comes out of that once more. Throws BlockDamage or another StorageError (corrupt),
/// naming file, tensor and block.
/// `past_cache` is the same file once more, for what lies so that it can be read past the page cache; may be nullptr.
void read_block(OpenFile& file, const StoredTensor& stored, const StoredBox& box, std::size_t number,
                std::span<std::byte> out, Scratch& scratch, OpenFile* past_cache = nullptr);

}  // namespace distdl::checkpoint
