// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include <distdl/base/checksum.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/stored_block.hpp>

namespace distdl::checkpoint {

std::size_t bytes_of_block(const StoredTensor& stored, const StoredBox& box, std::size_t number) {
  return std::min<std::uint64_t>(kBlockBytes, bytes_of(stored, box) - std::uint64_t{number} * kBlockBytes);
}

/// An uncompressed block: its bytes, and their checksum. What is read past the cache comes by aligned memory, from
/// where the checksum is taken on the way.
static std::uint32_t read_plain(OpenFile& file, OpenFile* past_cache, std::uint64_t at, std::span<std::byte> out,
                                Scratch& scratch) {
  if (past_cache && at % kDirectAlignment == 0 && out.size() >= kWorthDirect) {
    const std::size_t bytes = (out.size() + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
    scratch.stored.resize(std::max(scratch.stored.size(), bytes + kDirectAlignment));
    void* start = scratch.stored.data();
    std::size_t room = scratch.stored.size();
    const std::span aligned(static_cast<std::byte*>(std::align(kDirectAlignment, bytes, start, room)), bytes);
    if (past_cache->read_some(aligned, out.size(), at)) return copy_with_crc32c(out.data(), aligned.first(out.size()));
  }
  file.read_at(out, at);
  return crc32c(out);
}

void read_block(OpenFile& file, const StoredTensor& stored, const StoredBox& box, std::size_t number,
                std::span<std::byte> out, Scratch& scratch, OpenFile* past_cache) {
  const StoredChunk* chunk = box.chunks.empty() ? nullptr : &box.chunks[number];
  std::uint64_t at = chunk ? chunk->offset : box.offset + std::uint64_t{number} * kBlockBytes;
  work_done(WorkUnit::bytes, out.size());
  auto where = [&] {
    return fmt::format("\"{}\": tensor \"{}\", block {} at byte {}", file.path().string(), stored.entry.name, number,
                       at);
  };
  auto check = [&](std::uint32_t found, std::uint32_t expected, const char* which) {
    if (found == expected) return;
    throw BlockDamage(fmt::format("{}: {}checksum {:08x} expected, {:08x} found", where(), which, expected, found),
                      expected, found);
  };
  if (!chunk) return check(read_plain(file, past_cache, at, out, scratch), box.checksums[number], "");
  scratch.stored.resize(chunk->bytes);
  file.read_at(scratch.stored, at);
  check(crc32c(scratch.stored), chunk->checksum, "");
  std::string problem = decompress(box.codec, scratch.stored, tensor::size_of(stored.entry.dtype),
                                   chunk_bytes(stored, box), out, scratch.plain);
  if (!problem.empty())
    throw StorageError(fmt::format("{}: its {} bytes do not decompress to {} ({})", where(), chunk->bytes,
                                   chunk_bytes(stored, box), problem),
                       ExitCode::corrupt);
  check(crc32c(out), box.checksums[number], "decompressed: ");
}

}  // namespace distdl::checkpoint
