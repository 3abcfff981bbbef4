// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/data/format/chunk_writer.hpp>
#include <distdl/data/format/hdf5_attributes.hpp>

namespace distdl::data {

static_assert(std::endian::native == std::endian::little, "checksums are over the little-endian bytes of the file");

std::string checksum_name(const std::string& dataset) {
  return dataset + "_crc32c";
}

ChunkWriter::ChunkWriter(const hdf5::File& file, std::string name, StoredNumber type, tensor::Shape shape)
    : name_(std::move(name)),
      type_(type),
      rows_(shape.at(0)),
      row_bytes_(static_cast<std::size_t>(tensor::element_count(shape) / rows_) * size_of(type)) {
  rows_per_chunk_ = std::clamp<std::int64_t>(kChunkBytes / static_cast<std::int64_t>(row_bytes_), 1, rows_);
  dataset_ = create_dataset(file, name_.c_str(), type_, shape, rows_per_chunk_);
}

void ChunkWriter::append(std::span<const std::byte> rows) {
  const std::size_t chunk_bytes = static_cast<std::size_t>(rows_per_chunk_) * row_bytes_;
  auto left = static_cast<std::size_t>(rows_ - written_) * row_bytes_ - pending_.size();
  require(rows.size() <= left, "/{} was announced with {} rows, but more are being written", name_, rows_);
  while (!rows.empty()) {
    auto piece = rows.first(std::min(rows.size(), chunk_bytes - pending_.size()));
    pending_.insert(pending_.end(), piece.begin(), piece.end());
    rows = rows.subspan(piece.size());
    if (pending_.size() == chunk_bytes) flush();
  }
}

void ChunkWriter::flush() {
  auto rows = static_cast<std::int64_t>(pending_.size() / row_bytes_);
  write_rows(dataset_, type_, written_, rows, pending_.data());
  checksums_.push_back(crc32c(pending_));
  written_ += rows;
  pending_.clear();
}

void ChunkWriter::finish(const hdf5::File& file) {
  if (!pending_.empty()) flush();
  require(written_ == rows_, "/{} was announced with {} rows, but only {} were written", name_, rows_, written_);
  tensor::Shape shape{static_cast<std::int64_t>(checksums_.size())};
  auto table = create_dataset(file, checksum_name(name_).c_str(), StoredNumber::u32, shape, 0);
  write_rows(table, StoredNumber::u32, 0, shape[0], checksums_.data());
  write_attribute(table.get(), "crc32c", std::int64_t{crc32c(std::as_bytes(std::span(checksums_)))});
  dataset_.reset();
}

}  // namespace distdl::data
