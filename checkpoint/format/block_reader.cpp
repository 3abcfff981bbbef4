// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <distdl/checkpoint/format/block_reader.hpp>
#include <distdl/checkpoint/format/block_workers.hpp>
#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/stored_block.hpp>

namespace distdl::checkpoint {
namespace {
/// Bytes of one block that go to one place.
struct Piece {
  std::size_t from;  ///< in the box
  std::byte* to;
  std::size_t count;
};

struct BlockToRead {
  const StoredTensor* stored;
  const StoredBox* box;
  std::size_t number;
  std::size_t first_piece, pieces;
};

struct Work {
  std::vector<BlockToRead> blocks;
  std::vector<Piece> pieces;

  /// Pieces of one box come in ascending order, so that those of a block follow each other.
  void add(const StoredTensor& stored, const StoredBox& box, std::size_t from, std::byte* to, std::size_t left) {
    while (left > 0) {
      std::size_t number = from / kBlockBytes, count = std::min(left, kBlockBytes - from % kBlockBytes);
      if (blocks.empty() || blocks.back().box != &box || blocks.back().number != number)
        blocks.push_back({&stored, &box, number, pieces.size(), 0});
      pieces.push_back({from, to, count});
      ++blocks.back().pieces;
      from += count, to += count, left -= count;
    }
  }
};

Work plan(std::span<const WantedBox> wanted) {
  Work work;
  for (const WantedBox& target : wanted) {
    std::size_t element = tensor::size_of(target.stored->entry.dtype);
    for (const StoredBox& box : target.stored->boxes)
      for_each_range(box.box, target.box, [&](const ElementRange& range) {
        work.add(*target.stored, box, static_cast<std::size_t>(range.from) * element,
                 target.out + static_cast<std::size_t>(range.to) * element,
                 static_cast<std::size_t>(range.count) * element);
      });
  }
  return work;
}

struct Opened {
  OpenFile file;
  std::optional<OpenFile> past_cache;
};

Opened open_file(FileSystem& files, const Path& folder, const StoredFile& expected, PageCache cache) try {
  const Path path = folder / expected.name;
  OpenFile file(files, path, OpenFile::Mode::read);
  if (file.size() != expected.bytes)
    throw StorageError(
        fmt::format("\"{}\" is {} bytes long, but {} were written", file.path().string(), file.size(), expected.bytes),
        ExitCode::corrupt);
  auto direct =
      cache == PageCache::passed ? OpenFile::past_cache(files, path, OpenFile::Mode::read_past_cache) : std::nullopt;
  return {std::move(file), std::move(direct)};
} catch (const FileError& error) {
  if (error.number() == ENOENT) throw StorageError(error.what(), ExitCode::incomplete);
  throw;
}

/// Buffers that threads take and give back, so that their pages are touched for the first time only once.
class Buffers {
 public:
  struct Buffer {
    std::vector<std::byte> block;
    Scratch scratch;
  };
  Buffer take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return {};
    Buffer buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  void give_back(Buffer buffer) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(buffer));
  }

 private:
  std::mutex mutex_;
  std::vector<Buffer> free_;
};
}  // namespace

void read_boxes(FileSystem& files, const Path& folder, const Manifest& manifest, std::span<const WantedBox> wanted,
                std::size_t threads, PageCache cache) {
  Work work = plan(wanted);
  std::map<std::size_t, Opened> opened;
  for (const BlockToRead& block : work.blocks)
    if (!opened.contains(block.box->file))
      opened.emplace(block.box->file, open_file(files, folder, manifest.files[block.box->file], cache));
  Buffers buffers;
  for_each_block(work.blocks.size(), threads, [&](std::size_t i) {
    const BlockToRead& block = work.blocks[i];
    Opened& from = opened.at(block.box->file);
    std::size_t begin = block.number * kBlockBytes, bytes = bytes_of_block(*block.stored, *block.box, block.number);
    auto pieces = std::span<const Piece>(work.pieces).subspan(block.first_piece, block.pieces);
    bool whole = pieces.size() == 1 && pieces[0].count == bytes;  // straight to its place
    Buffers::Buffer buffer = buffers.take();
    if (!whole) buffer.block.resize(std::max(buffer.block.size(), bytes));
    std::span<std::byte> held(whole ? pieces[0].to : buffer.block.data(), bytes);
    read_block(from.file, *block.stored, *block.box, block.number, held, buffer.scratch,
               from.past_cache ? &*from.past_cache : nullptr);
    if (!whole)
      for (const Piece& piece : pieces) std::memcpy(piece.to, held.data() + (piece.from - begin), piece.count);
    buffers.give_back(std::move(buffer));
  });
}

}  // namespace distdl::checkpoint
