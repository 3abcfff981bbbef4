// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/commit/finite.hpp>
#include <distdl/checkpoint/format/block_workers.hpp>
#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/format/writer.hpp>
#include <distdl/checkpoint/snapshot_buffer.hpp>

namespace distdl::checkpoint {
namespace {
constexpr std::array<char, 8> kMagic{'d', 'i', 's', 't', 'd', 'l', 's', 'l'};
constexpr std::uint32_t kBufferFormat = 2;
constexpr std::size_t kPage = 4096;        ///< page of the format, whatever the size of the machine's pages
constexpr std::size_t kLine = 64;          // line of a cache
constexpr std::size_t kPiece = 256 << 10;  // checked and then copied out of the cache

/// The first bytes of a buffer, little-endian.
struct Header {
  std::array<char, 8> magic{};
  std::uint32_t format = 0;
  std::int32_t rank = 0, world = 0;
  std::uint32_t start_identity = 0;
  std::int64_t step = 0;
  std::uint64_t sequence = 0, start = 0;
  std::uint64_t bytes = 0;                        ///< size of the whole buffer
  std::uint64_t text_bytes = 0;                   ///< a manifest without checksums, right after this header's page
  std::uint64_t checksums_at = 0, checksums = 0;  ///< place and number: one for each block, in the slices' order
  std::uint32_t checksums_crc = 0;
  std::array<char, 64> run{};  ///< ends with zeros
  std::uint32_t seal = 0;      ///< CRC-32C of all before; written last
};
static_assert(offsetof(Header, seal) % sizeof(std::uint32_t) == 0 && sizeof(Header) <= kPage);

std::uint32_t seal_of(const Header& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, seal)));
}

std::size_t round_up(std::size_t value, std::size_t to) {
  return (value + to - 1) / to * to;
}

std::size_t blocks_of(std::size_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes;
}

/// The seal is the last word that a writer stores, and the first that it takes back.
void store_seal(std::span<std::byte> buffer, std::uint32_t seal) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto* place = reinterpret_cast<std::uint32_t*>(buffer.data() + offsetof(Header, seal));
  std::atomic_ref(*place).store(seal, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

/// Where everything lies in a buffer. Large boxes begin on a page, so that they may be written past the page cache.
struct BufferPlan {
  Manifest part;  ///< offsets count from the start of the data
  std::string text;
  std::size_t checksums = 0;
  std::size_t checksums_at = 0, data_at = 0, bytes = 0;
};

BufferPlan plan_buffer(std::span<const Slice> slices, const State& state, const SnapshotLabel& label) {
  BufferPlan plan;
  std::uint64_t at = 0;
  for (const Slice& slice : slices) {
    StoredTensor stored{{slice.name, slice.dtype, slice.shape}, {}};
    StoredBox box{slice.box, 0, 0, {}};
    if (std::size_t bytes = bytes_of(stored, box); bytes > 0) {
      at = round_up(at, bytes >= kPage ? kPage : kLine);
      box.offset = at;
      at += bytes;
      plan.checksums += blocks_of(bytes);
      stored.boxes.push_back(std::move(box));
    }
    plan.part.tensors.push_back(std::move(stored));
  }
  plan.part.step = label.step;
  plan.part.world_size = label.world;
  plan.part.state = state;
  plan.part.files.push_back({data_file_name(label.rank), at, 0});
  plan.text = to_text(plan.part);
  plan.checksums_at = round_up(kPage + plan.text.size(), kLine);
  plan.data_at = round_up(plan.checksums_at + plan.checksums * sizeof(std::uint32_t), kPage);
  plan.bytes = plan.data_at + at;
  return plan;
}

/// One block of a slice: where it comes from, where it goes, where its checksum goes.
struct BufferBlock {
  const Slice* slice;
  std::span<const std::byte> from;
  std::byte* to;
};

std::vector<BufferBlock> blocks_to_copy(std::span<const Slice> slices, const BufferPlan& plan,
                                        std::span<std::byte> buffer) {
  std::vector<BufferBlock> blocks;
  blocks.reserve(plan.checksums);
  for (std::size_t i = 0; i < slices.size(); ++i)
    for (const StoredBox& box : plan.part.tensors[i].boxes) {
      std::span<const std::byte> from(slices[i].bytes, bytes_of(plan.part.tensors[i], box));
      std::byte* to = buffer.data() + plan.data_at + box.offset;
      for (std::size_t at = 0; at < from.size(); at += kBlockBytes)
        blocks.push_back({&slices[i], from.subspan(at, std::min(kBlockBytes, from.size() - at)), to + at});
    }
  return blocks;
}

std::uint32_t copy_block(const BufferBlock& block, bool finite, Step step) {
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < block.from.size(); at += kPiece) {
    auto piece = block.from.subspan(at, std::min(kPiece, block.from.size() - at));
    require(!finite || all_finite(block.slice->dtype, piece),
            "tensor \"{}\" is infinite or not a number at step {}: such a state is never saved", block.slice->name,
            step);
    crc = copy_with_crc32c(block.to + at, piece, crc);
  }
  return crc;
}

template <class... Args>
void demand_intact(bool condition, fmt::format_string<Args...> message, Args&&... args) {
  if (!condition)
    throw StorageError("a snapshot buffer is damaged: " + fmt::format(message, std::forward<Args>(args)...),
                       ExitCode::corrupt);
}

Header open_header(std::span<const std::byte> buffer) {
  Header header;
  if (buffer.size() < kPage) throw StorageError("a snapshot buffer is too small for its header", ExitCode::incomplete);
  std::memcpy(&header, buffer.data(), sizeof header);
  if (header.magic != kMagic || header.seal == 0)
    throw StorageError("a snapshot buffer is empty or was never sealed", ExitCode::incomplete);
  if (header.format != kBufferFormat)
    throw StorageError(
        fmt::format("a snapshot buffer has format {}, but this program reads {}", header.format, kBufferFormat),
        ExitCode::incompatible);
  demand_intact(header.seal == seal_of(header), "its label's checksum is {:08x}, but {:08x} was expected",
                seal_of(header), header.seal);
  std::uint64_t room = buffer.size();
  demand_intact(header.bytes <= room && header.text_bytes <= header.bytes && header.checksums_at <= header.bytes &&
                    header.checksums_at % kLine == 0 && kPage + header.text_bytes <= header.checksums_at &&
                    header.checksums <= (header.bytes - header.checksums_at) / sizeof(std::uint32_t),
                "its {} bytes are fewer than its label says", buffer.size());
  demand_intact(header.run.back() == 0 && header.rank >= 0 && header.rank < header.world, "rank {} of {}", header.rank,
                header.world);
  return header;
}

/// The slice that a box of the buffer holds.
Slice slice_of(const StoredTensor& stored, std::span<const std::byte> data, std::span<const std::uint32_t>& checksums) {
  const TensorEntry& entry = stored.entry;
  demand_intact(stored.boxes.size() <= 1, "tensor \"{}\" has {} boxes", entry.name, stored.boxes.size());
  if (stored.boxes.empty()) {
    tensor::Box nothing{tensor::Shape(entry.shape.size(), 0), tensor::Shape(entry.shape.size(), 0)};
    return {entry.name, entry.dtype, entry.shape, std::move(nothing), nullptr, {}};
  }
  const StoredBox& box = stored.boxes.front();
  demand_intact(box.chunks.empty(), "tensor \"{}\" is compressed", entry.name);
  demand_intact(lies_inside(box.box, entry.shape), "tensor \"{}\" has a box outside its shape", entry.name);
  std::uint64_t bytes = bytes_of(stored, box);
  demand_intact(bytes <= data.size() && box.offset <= data.size() - bytes && blocks_of(bytes) <= checksums.size(),
                "tensor \"{}\" extends beyond the end", entry.name);
  Slice slice{
      entry.name, entry.dtype, entry.shape, box.box, data.data() + box.offset, checksums.first(blocks_of(bytes))};
  checksums = checksums.subspan(blocks_of(bytes));
  return slice;
}
}  // namespace

std::string text_of(const SnapshotLabel& label) {
  return fmt::format("rank {} of {}, step {} of start {}", label.rank, label.world, label.step, label.start.number);
}

std::pair<Start, Step> moment_of(const SnapshotLabel& label) {
  return {label.start, label.step};
}

std::size_t buffer_bytes(std::span<const Slice> slices, const State& state) {
  SnapshotLabel longest{"", std::numeric_limits<int>::max() - 1, std::numeric_limits<int>::max(),
                        Step(std::numeric_limits<std::int64_t>::max()), 0};
  return plan_buffer(slices, state, longest).bytes;
}

void fill_buffer(std::span<std::byte> buffer, const SnapshotLabel& label, std::span<const Slice> slices,
                 const State& state, const CopyPlan& how) {
  empty_buffer(buffer);
  check_slices(slices);
  Header header;
  require<InternalError>(label.run.size() < header.run.size(), "\"{}\" is too long for the name of a run", label.run);
  BufferPlan plan = plan_buffer(slices, state, label);
  require<InternalError>(plan.bytes <= buffer.size(), "a buffer of {} bytes is too small: {} are needed", buffer.size(),
                         plan.bytes);
  std::memcpy(buffer.data() + kPage, plan.text.data(), plan.text.size());
  std::vector<BufferBlock> blocks = blocks_to_copy(slices, plan, buffer);
  auto* checksums = reinterpret_cast<std::uint32_t*>(buffer.data() + plan.checksums_at);
  for_each_block(blocks.size(), how.threads,
                 [&](std::size_t i) { checksums[i] = copy_block(blocks[i], how.finite, label.step); });
  header.magic = kMagic;
  header.format = kBufferFormat;
  header.rank = label.rank;
  header.world = label.world;
  header.step = label.step.value;
  header.sequence = label.sequence;
  header.start = label.start.number;
  header.start_identity = label.start.identity;
  header.bytes = plan.bytes;
  header.text_bytes = plan.text.size();
  header.checksums_at = plan.checksums_at;
  header.checksums = plan.checksums;
  header.checksums_crc = crc32c(std::as_bytes(std::span(checksums, plan.checksums)));
  std::copy(label.run.begin(), label.run.end(), header.run.begin());
  std::memcpy(buffer.data(), &header, offsetof(Header, seal));
  store_seal(buffer, seal_of(header));
}

void empty_buffer(std::span<std::byte> buffer) noexcept {
  if (buffer.size() >= kPage) store_seal(buffer, 0);
}

Snapshot open_snapshot(std::span<const std::byte> buffer) {
  Header header = open_header(buffer);
  std::string text(reinterpret_cast<const char*>(buffer.data()) + kPage, header.text_bytes);
  Manifest part = parse_manifest(text, "a snapshot buffer");
  std::span checksums(reinterpret_cast<const std::uint32_t*>(buffer.data() + header.checksums_at), header.checksums);
  demand_intact(crc32c(std::as_bytes(checksums)) == header.checksums_crc,
                "the checksum of its list of checksums is wrong");
  demand_intact(part.step.value == header.step && part.files.size() == 1, "its step differs from its label");
  std::size_t data_at = round_up(header.checksums_at + checksums.size_bytes(), kPage);
  demand_intact(data_at <= header.bytes && part.files[0].bytes == header.bytes - data_at, "{}",
                "its sizes are inconsistent");
  auto data = buffer.subspan(data_at, header.bytes - data_at);
  Snapshot snapshot{{header.run.data(),
                     header.rank,
                     header.world,
                     Step(header.step),
                     header.sequence,
                     {header.start, header.start_identity}},
                    {},
                    std::move(part.state),
                    header.bytes};
  for (const StoredTensor& stored : part.tensors) {
    check_shape(stored.entry, "a snapshot buffer");
    snapshot.slices.push_back(slice_of(stored, data, checksums));
  }
  demand_intact(checksums.empty(), "it has {} checksums too many", checksums.size());
  return snapshot;
}

void verify(const Snapshot& snapshot, std::size_t threads) {
  struct Piece {
    const Slice* slice;
    std::size_t number;
  };
  std::vector<Piece> pieces;
  for (const Slice& slice : snapshot.slices)
    for (std::size_t number = 0; number < slice.checksums.size(); ++number) pieces.push_back({&slice, number});
  for_each_block(pieces.size(), threads, [&](std::size_t i) {
    auto [slice, number] = pieces[i];
    std::size_t bytes = bytes_of(std::span(slice, 1)), at = number * kBlockBytes;
    std::uint32_t found = crc32c({slice->bytes + at, std::min(kBlockBytes, bytes - at)});
    demand_intact(found == slice->checksums[number], "tensor \"{}\", block {}: checksum {:08x} expected, {:08x} found",
                  slice->name, number, slice->checksums[number], found);
  });
}

}  // namespace distdl::checkpoint
