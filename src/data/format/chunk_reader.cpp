// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/data/format/chunk_reader.hpp>
#include <distdl/data/format/chunk_writer.hpp>
#include <distdl/data/format/hdf5_attributes.hpp>

namespace distdl::data {
namespace {

std::vector<std::uint32_t> read_checksums(const hdf5::File& file, const std::string& file_name, const std::string& name,
                                          std::int64_t chunks) {
  auto table = open_dataset(file, name.c_str(), StoredNumber::u32, {chunks});
  std::vector<std::uint32_t> checksums(static_cast<std::size_t>(chunks));
  read_rows(table, StoredNumber::u32, 0, chunks, checksums.data());
  auto expected = read_integer(table.get(), "crc32c");
  std::int64_t found{crc32c(std::as_bytes(std::span(checksums)))};
  if (found != expected)
    throw StorageError(
        fmt::format("\"{}\" is damaged: the checksum table /{} has CRC32C {:08x}, expected {:08x}; create or "
                    "copy the file again",
                    file_name, name, found, expected),
        ExitCode::corrupt);
  return checksums;
}

}  // namespace

ChunkReader::ChunkReader(const hdf5::File& file, std::string file_name, std::string name, StoredNumber type,
                         tensor::Shape shape, std::size_t cache_bytes)
    : file_name_(std::move(file_name)),
      name_(std::move(name)),
      type_(type),
      rows_(shape.at(0)),
      row_bytes_(static_cast<std::size_t>(tensor::element_count(shape) / rows_) * size_of(type)),
      cache_bytes_(cache_bytes),
      dataset_(open_dataset(file, name_.c_str(), type, shape)),
      rows_per_chunk_(data::rows_per_chunk(dataset_)) {
  if (rows_per_chunk_ < 1 || rows_per_chunk_ > rows_)
    throw StorageError(
        fmt::format("\"{}\" is damaged: /{} is not divided into chunks of samples; create or copy the file again",
                    file_name_, name_),
        ExitCode::corrupt);
  checksums_ = read_checksums(file, file_name_, checksum_name(name_), (rows_ + rows_per_chunk_ - 1) / rows_per_chunk_);
}

std::size_t ChunkReader::bytes_of(std::int64_t number) const {
  return static_cast<std::size_t>(std::min(rows_per_chunk_, rows_ - number * rows_per_chunk_)) * row_bytes_;
}

std::span<const std::byte> ChunkReader::chunk(std::int64_t number) {
  require(number >= 0 && number < chunks(), "/{} of \"{}\" has no chunk {}, only {} chunks", name_, file_name_, number,
          chunks());
  if (auto found = cached_.find(number); found != cached_.end()) {
    recent_.splice(recent_.begin(), recent_, found->second);
    return recent_.front().bytes;
  }
  std::vector<std::byte> bytes(bytes_of(number));
  read_rows(dataset_, type_, number * rows_per_chunk_, static_cast<std::int64_t>(bytes.size() / row_bytes_),
            bytes.data());
  ++reads_;
  verify(bytes, number);
  while (!recent_.empty() && used_bytes_ + bytes.size() > cache_bytes_) {
    used_bytes_ -= recent_.back().bytes.size();
    cached_.erase(recent_.back().number);
    recent_.pop_back();
  }
  used_bytes_ += bytes.size();
  recent_.push_front({number, std::move(bytes)});
  cached_[number] = recent_.begin();
  return recent_.front().bytes;
}

void ChunkReader::verify(std::span<const std::byte> bytes, std::int64_t number) const {
  const std::int64_t first = number * rows_per_chunk_, rows = std::min(rows_per_chunk_, rows_ - first);
  auto found = crc32c(bytes), expected = checksums_[static_cast<std::size_t>(number)];
  if (found != expected)
    throw StorageError(
        fmt::format(
            "\"{}\" is damaged: chunk {} of /{} (samples {} to {}) has CRC32C {:08x}, expected {:08x}; create or "
            "copy the file again; \"distdl data info --verify\" lists all damage",
            file_name_, number, name_, first, first + rows - 1, found, expected),
        ExitCode::corrupt);
}

}  // namespace distdl::data
