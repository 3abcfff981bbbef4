// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/checksum.hpp>
#include <distdl/checkpoint/layout.hpp>
#include <distdl/checkpoint/stored_block.hpp>

namespace distdl::checkpoint {

std::size_t bytes_of_block(const StoredTensor& stored, const StoredBox& box, std::size_t number) {
  return std::min<std::uint64_t>(kBlockBytes, bytes_of(stored, box) - std::uint64_t{number} * kBlockBytes);
}

void read_block(OpenFile& file, const StoredTensor& stored, const StoredBox& box, std::size_t number,
                std::span<std::byte> out, Scratch& scratch) {
  const StoredChunk* chunk = box.chunks.empty() ? nullptr : &box.chunks[number];
  std::uint64_t at = chunk ? chunk->offset : box.offset + std::uint64_t{number} * kBlockBytes;
  auto where = [&] {
    return fmt::format("\"{}\": tensor \"{}\", block {} at byte {}", file.path().string(), stored.entry.name, number,
                       at);
  };
  auto check = [&](std::span<const std::byte> bytes, std::uint32_t expected, const char* which) {
    std::uint32_t found = crc32c(bytes);
    if (found == expected) return;
    throw BlockDamage(fmt::format("{}: {}checksum {:08x} expected, {:08x} found", where(), which, expected, found),
                      expected, found);
  };
  if (!chunk) {
    file.read_at(out, at);
    return check(out, box.checksums[number], "");
  }
  scratch.stored.resize(chunk->bytes);
  file.read_at(scratch.stored, at);
  check(scratch.stored, chunk->checksum, "");
  std::string problem = decompress(box.codec, scratch.stored, tensor::size_of(stored.entry.dtype),
                                   chunk_bytes(stored, box), out, scratch.plain);
  if (!problem.empty())
    throw StorageError(fmt::format("{}: its {} bytes are not {} compressed ({})", where(), chunk->bytes,
                                   chunk_bytes(stored, box), problem),
                       ExitCode::corrupt);
  check(out, box.checksums[number], "decompressed: ");
}

}  // namespace distdl::checkpoint
