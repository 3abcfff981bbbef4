// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <map>

#include <distdl/base/checksum.hpp>
#include <distdl/base/log.hpp>
#include <distdl/checkpoint/boxes.hpp>
#include <distdl/checkpoint/file_operations.hpp>
#include <distdl/checkpoint/hdf5_skeleton.hpp>
#include <distdl/checkpoint/layout.hpp>
#include <distdl/checkpoint/verify.hpp>
#include <distdl/checkpoint/writer.hpp>

namespace distdl::checkpoint {
namespace {
constexpr int kNewFiles = 2;  // written after the first one failed

std::span<const std::byte> bytes_of(const Slice& slice) {
  auto count = static_cast<std::size_t>(tensor::element_count(slice.box.extent));
  return {slice.bytes, count * tensor::size_of(slice.dtype)};
}

/// CRC of each block, known before or taken from the memory that is written, so that it covers the whole way to the
/// disk and back.
std::vector<std::uint32_t> write_blocks(OpenFile& file, const Slice& slice, std::uint64_t offset) {
  std::span<const std::byte> bytes = bytes_of(slice);
  std::vector<std::uint32_t> checksums(slice.checksums.begin(), slice.checksums.end());
  for (std::size_t done = 0; done < bytes.size(); done += kBlockBytes) {
    auto block = bytes.subspan(done, std::min(kBlockBytes, bytes.size() - done));
    if (slice.checksums.empty()) checksums.push_back(crc32c(block));
    file.write_at(block, offset + done);
  }
  return checksums;
}

std::vector<PlannedDataset> plan(std::span<const Slice> slices) {
  std::vector<PlannedDataset> datasets;
  std::map<std::string, int> boxes;
  for (const Slice& slice : slices)
    if (!bytes_of(slice).empty())
      datasets.push_back(
          {fmt::format("/t/{}/{}", slice.name, boxes[slice.name]++), slice.dtype, slice.shape, slice.box});
  return datasets;
}

std::vector<std::uint64_t> create(FileSystem& files, const Path& path, const Contribution& contribution) {
  if (files.before_hdf5(path.c_str()) != 0) throw FileError("create", path, errno);
  return create_skeleton(path, contribution.step, plan(contribution.slices), contribution.state);
}

/// Reserves the room of all datasets, but not of the gaps that HDF5's alignment leaves: they stay holes. Small datasets
/// that lie side by side are reserved together.
void reserve(OpenFile& file, std::span<const Slice> slices, const std::vector<std::uint64_t>& offsets) {
  constexpr std::uint64_t kNear = 64 << 10;
  std::map<std::uint64_t, std::uint64_t> extents;  // begin to end
  std::size_t next = 0;
  for (const Slice& slice : slices)
    if (std::size_t bytes = bytes_of(slice).size(); bytes > 0) {
      extents[offsets[next]] = offsets[next] + bytes;
      ++next;
    }
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

Manifest write_once(FileSystem& files, const Path& path, const Contribution& contribution, bool read_back) {
  std::vector<std::uint64_t> offsets = create(files, path, contribution);
  OpenFile file(files, path, OpenFile::Mode::write);
  reserve(file, contribution.slices, offsets);
  Manifest part;
  part.files.push_back({path.filename().string(), file.size(), 0});
  std::size_t next = 0;
  for (const Slice& slice : contribution.slices) {
    StoredTensor stored{{slice.name, slice.dtype, slice.shape}, {}};
    if (!bytes_of(slice).empty()) {
      std::uint64_t offset = offsets[next++];
      stored.boxes.push_back({slice.box, 0, offset, write_blocks(file, slice, offset)});
    }
    part.tensors.push_back(std::move(stored));
  }
  part.files[0].rest = rest_checksum(file, part, 0);
  file.sync();
  if (read_back) {
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
}

Manifest write_data_file(FileSystem& files, const std::filesystem::path& folder, const std::string& name,
                         const Contribution& contribution, bool read_back) {
  Path path = folder / name;
  if (bytes_of(contribution.slices) == 0 && contribution.state.empty()) {
    Manifest part;  // the names and shapes of empty slices count all the same
    for (const Slice& slice : contribution.slices) part.tensors.push_back({{slice.name, slice.dtype, slice.shape}, {}});
    return part;
  }
  for (int attempt = 0;; ++attempt) {
    try {
      return write_once(files, path, contribution, read_back);
    } catch (const StorageError& error) {
      // After a failed fsync nothing can be said about the old file's pages, so start with a new one.
      files.unlink(path.c_str());
      if (attempt == kNewFiles) throw;
      log(Severity::warning, "writing a new file after: {}", error.what());
    }
  }
}

}  // namespace distdl::checkpoint
