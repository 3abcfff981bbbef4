// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include <distdl/base/checksum.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/format/block_workers.hpp>
#include <distdl/checkpoint/format/hdf5_skeleton.hpp>
#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/verify.hpp>
#include <distdl/checkpoint/format/writer.hpp>
#include <distdl/checkpoint/snapshot_buffer.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {
namespace {
constexpr int kNewFiles = 2;  // written after the first one failed

std::span<const std::byte> bytes_of(const Slice& slice) {
  auto count = static_cast<std::size_t>(tensor::element_count(slice.box.extent));
  return {slice.bytes, count * tensor::size_of(slice.dtype)};
}

constexpr std::size_t kWorthThreads = 16 << 20;  // bytes of a file
constexpr std::size_t kWorthChunks = 512;        // bytes saved: about what HDF5 needs to describe chunks

/// Writes blocks from any thread: past the page cache where address, place and file system allow it. That saves the
/// copy into the cache, and the disk begins at once rather than at the fsync.
class BlockWriter {
 public:
  BlockWriter(FileSystem& files, OpenFile& file, std::uint64_t total)
      : file_(file),
        direct_(total >= kWorthDirect ? OpenFile::past_cache(files, file.path(), OpenFile::Mode::write_past_cache)
                                      : std::nullopt) {}
  void write(std::span<const std::byte> bytes, std::uint64_t offset) {
    bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % kDirectAlignment == 0 &&
                   offset % kDirectAlignment == 0 && bytes.size() >= kWorthDirect;
    std::size_t done = 0;
    if (direct_ && aligned)
      done = direct_->write_some(bytes.first(bytes.size() / kDirectAlignment * kDirectAlignment), offset);
    file_.write_at(bytes.subspan(done), offset + done);
  }
  void close() {
    if (direct_) direct_->close();
  }

 private:
  OpenFile& file_;
  std::optional<OpenFile> direct_;
};

/// A block to be written; its CRC is known before, or taken from the memory that is written, so that it covers the
/// whole way to the disk and back.
struct PlacedBlock {
  std::span<const std::byte> bytes;
  std::uint64_t offset;
  std::uint32_t* checksum;
  bool is_known;
};

/// Gives `box` its checksums, as far as they are known, and adds its blocks.
void add_blocks(std::vector<PlacedBlock>& blocks, const Slice& slice, StoredBox& box) {
  std::span<const std::byte> bytes = bytes_of(slice);
  box.checksums.assign(slice.checksums.begin(), slice.checksums.end());
  box.checksums.resize((bytes.size() + kBlockBytes - 1) / kBlockBytes);
  for (std::size_t done = 0; done < bytes.size(); done += kBlockBytes)
    blocks.push_back({bytes.subspan(done, std::min(kBlockBytes, bytes.size() - done)), box.offset + done,
                      &box.checksums[done / kBlockBytes], !slice.checksums.empty()});
}

/// A slice's blocks, compressed; without chunks if that would not save anything.
struct CompressedSlice {
  std::vector<std::vector<std::byte>> blocks;
  std::vector<StoredChunk> chunks;
  std::vector<std::uint32_t> checksums;  // checksums of the blocks as they were
};

/// Blocks that compress() leaves as they are stay where they are.
std::span<const std::byte> chunk_of(const Slice& slice, const CompressedSlice& compressed, std::size_t number) {
  if (const auto& block = compressed.blocks[number]; !block.empty()) return block;
  return bytes_of(slice).subspan(number * kBlockBytes).first(std::min(kBlockBytes, bytes_of(slice).size()));
}

void compress_block(const Slice& slice, Codec codec, CompressedSlice& compressed, std::size_t number) {
  std::span<const std::byte> bytes = bytes_of(slice), block = bytes.subspan(number * kBlockBytes);
  block = block.first(std::min(kBlockBytes, block.size()));
  compressed.checksums[number] = slice.checksums.empty() ? crc32c(block) : slice.checksums[number];
  compressed.blocks[number] = compress(codec, block, tensor::size_of(slice.dtype), std::min(kBlockBytes, bytes.size()));
  std::span<const std::byte> chunk = chunk_of(slice, compressed, number);
  compressed.chunks[number] = {0, chunk.size(), crc32c(chunk)};
}

std::vector<CompressedSlice> compress_slices(std::span<const Slice> slices, Codec codec, std::size_t threads) {
  std::vector<CompressedSlice> all(slices.size());
  if (codec == Codec::none) return all;
  std::vector<std::pair<std::size_t, std::size_t>> blocks;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    std::size_t count = (bytes_of(slices[i]).size() + kBlockBytes - 1) / kBlockBytes;
    if (bytes_of(slices[i]).size() <= kWorthChunks) continue;
    all[i] = {std::vector<std::vector<std::byte>>(count), std::vector<StoredChunk>(count),
              std::vector<std::uint32_t>(count)};
    for (std::size_t number = 0; number < count; ++number) blocks.emplace_back(i, number);
  }
  for_each_block(blocks.size(), threads, [&](std::size_t i) {
    auto [slice, number] = blocks[i];
    compress_block(slices[slice], codec, all[slice], number);
  });
  for (std::size_t i = 0; i < slices.size(); ++i) {
    std::uint64_t stored = kWorthChunks;
    for (const StoredChunk& chunk : all[i].chunks) stored += chunk.bytes;
    if (stored > bytes_of(slices[i]).size()) all[i] = CompressedSlice();
  }
  return all;
}

std::vector<PlannedDataset> plan(std::span<const Slice> slices, const std::vector<CompressedSlice>& compressed,
                                 Codec codec) {
  std::vector<PlannedDataset> datasets;
  std::map<std::string, int> boxes;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    if (bytes_of(slice).empty()) continue;
    datasets.push_back(
        {fmt::format("/t/{}/{}", slice.name, boxes[slice.name]++), slice.dtype, slice.shape, slice.box, codec});
    for (std::size_t number = 0; number < compressed[i].chunks.size(); ++number)
      datasets.back().chunks.push_back(chunk_of(slice, compressed[i], number));
  }
  return datasets;
}

/// Reserves the room of all contiguous boxes, but not of the gaps that HDF5's alignment leaves: they stay holes. Small
/// ones that lie side by side are reserved together.
void reserve(OpenFile& file, const Manifest& part) {
  constexpr std::uint64_t kNear = 64 << 10;
  std::map<std::uint64_t, std::uint64_t> extents;  // begin to end
  for (const StoredTensor& stored : part.tensors)
    for (const StoredBox& box : stored.boxes)
      if (box.chunks.empty()) extents[box.offset] = box.offset + bytes_of(stored, box);
  while (!extents.empty()) {
    auto [begin, end] = *extents.begin();
    extents.erase(extents.begin());
    while (!extents.empty() && extents.begin()->first <= end + kNear) {
      end = extents.begin()->second;
      extents.erase(extents.begin());
    }
    file.reserve(begin, end - begin);
  }
}

Manifest write_once(FileSystem& files, const Path& path, const Contribution& contribution, const Options& options) {
  std::uint64_t total = checkpoint::bytes_of(contribution.slices);
  std::size_t threads = total >= kWorthThreads ? static_cast<std::size_t>(options.write_threads) : 1;
  Codec codec = codec_called(options.compression).value();
  std::vector<CompressedSlice> compressed = compress_slices(contribution.slices, codec, threads);
  if (files.before_hdf5(path.c_str()) != 0) throw FileError("create", path, errno);
  auto offsets =
      create_skeleton(path, contribution.step, plan(contribution.slices, compressed, codec), contribution.state);
  OpenFile file(files, path, OpenFile::Mode::write);
  Manifest part;
  part.files.push_back({path.filename().string(), file.size(), 0});
  part.tensors.reserve(contribution.slices.size());  // blocks point into it
  std::vector<PlacedBlock> blocks;
  std::size_t next = 0;
  for (std::size_t i = 0; i < contribution.slices.size(); ++i) {
    const Slice& slice = contribution.slices[i];
    StoredTensor& stored = part.tensors.emplace_back(StoredTensor{{slice.name, slice.dtype, slice.shape}, {}});
    if (bytes_of(slice).empty()) continue;
    const std::vector<std::uint64_t>& places = offsets[next++];
    StoredBox& box = stored.boxes.emplace_back(StoredBox{slice.box, 0, 0, {}});
    if (compressed[i].chunks.empty()) {
      box.offset = places.front();
      add_blocks(blocks, slice, box);
    } else {
      box.codec = codec;
      box.checksums = std::move(compressed[i].checksums);
      box.chunks = std::move(compressed[i].chunks);
      for (std::size_t k = 0; k < places.size(); ++k) box.chunks[k].offset = places[k];
    }
  }
  compressed.clear();
  reserve(file, part);
  BlockWriter writer(files, file, total);
  for_each_block(blocks.size(), threads, [&](std::size_t i) {
    if (!blocks[i].is_known) *blocks[i].checksum = crc32c(blocks[i].bytes);
    writer.write(blocks[i].bytes, blocks[i].offset);
  });
  writer.close();
  part.files[0].rest = rest_checksum(file, part, 0);
  file.sync();
  if (options.verify_after_write) {
    file.drop_cache();
    auto findings = verify_file(file, part, 0);
    if (!findings.empty()) throw FileError(fmt::format("read back ({})", findings.front().message), path, EIO);
  }
  file.close();
  return part;
}
}  // namespace

std::uint64_t bytes_of(std::span<const Slice> slices) {
  std::uint64_t sum = 0;
  for (const Slice& slice : slices) sum += bytes_of(slice).size();
  return sum;
}

void check_slices(std::span<const Slice> slices) {
  for (const Slice& slice : slices) {
    auto demand = [&](bool condition, std::string_view problem) {
      if (!condition)
        throw StorageError(fmt::format("tensor \"{}\" cannot be saved: {}", slice.name, problem),
                           ExitCode::incompatible);
    };
    demand(is_valid_name(slice.name), "names are parts of printable characters joined by '/'");
    demand(lies_inside(slice.box, slice.shape), "its box is not inside its shape");
    demand(slice.bytes || bytes_of(slice).empty(), "it has no address");
    std::size_t blocks = (bytes_of(slice).size() + kBlockBytes - 1) / kBlockBytes;
    demand(slice.checksums.empty() || slice.checksums.size() == blocks, "it has too few or too many checksums");
  }
  std::set<std::string_view> names;
  for (const Slice& slice : slices) names.insert(slice.name);
  if (const auto inner = name_within_another(names); !inner.empty())
    throw StorageError(fmt::format("tensor \"{}\" cannot be saved: its name begins with that of another tensor "
                                   "and a '/', where HDF5 needs a group; rename one",
                                   inner),
                       ExitCode::incompatible);
}

void check_state(const State& state) {
  if (state.contains(kParityKey))
    throw StorageError(fmt::format("the state \"{}\" cannot be saved: distdl uses this key for the parity of "
                                   "snapshots; choose another key",
                                   kParityKey),
                       ExitCode::incompatible);
  std::set<std::string_view> keys;
  for (const auto& [key, value] : state) keys.insert(key);
  const auto inner = name_within_another(keys);
  const auto bad = std::find_if_not(keys.begin(), keys.end(), is_valid_name);
  if (bad != keys.end() || !inner.empty())
    throw StorageError(fmt::format("the state \"{}\" cannot be saved: keys are parts of printable characters joined by "
                                   "'/', and no key may begin "
                                   "with another key and a '/'",
                                   inner.empty() ? *bad : inner),
                       ExitCode::incompatible);
}

Manifest write_data_file(FileSystem& files, const std::filesystem::path& folder, const std::string& name,
                         const Contribution& contribution, const Options& options) {
  Path path = folder / name;
  if (bytes_of(contribution.slices) == 0 && contribution.state.empty()) {
    Manifest part;  // the names and shapes of empty slices count all the same
    for (const Slice& slice : contribution.slices) part.tensors.push_back({{slice.name, slice.dtype, slice.shape}, {}});
    return part;
  }
  for (int attempt = 0;; ++attempt) {
    try {
      return write_once(files, path, contribution, options);
    } catch (const StorageError& error) {
      // After a failed fsync nothing can be said about the old file's pages, so start with a new one.
      files.unlink(path.c_str());
      if (attempt == kNewFiles) throw;
      log(Severity::warning, "writing a new file after: {}", error.what());
    }
  }
}

}  // namespace distdl::checkpoint
