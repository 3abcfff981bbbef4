// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <distdl/checkpoint/format/hyperslabs.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/checkpoint/format/tensor_reader.hpp>

namespace distdl::checkpoint {

TensorReader::TensorReader(FileSystem& files, Path folder)
    : files_(files), folder_(std::move(folder)), manifest_(load_manifest(files_, folder_)) {}

const StoredTensor* TensorReader::find(const std::string& name) const {
  auto found = std::lower_bound(manifest_.tensors.begin(), manifest_.tensors.end(), name,
                                [](const StoredTensor& stored, const std::string& n) { return stored.entry.name < n; });
  return found != manifest_.tensors.end() && found->entry.name == name ? &*found : nullptr;
}

OpenFile& TensorReader::open(std::size_t index) try {
  auto found = open_.find(index);
  if (found != open_.end()) return found->second;
  const StoredFile& expected = manifest_.files[index];
  OpenFile file(files_, folder_ / expected.name, OpenFile::Mode::read);
  if (file.size() != expected.bytes)
    throw StorageError(
        fmt::format("\"{}\" is {} bytes long, but {} were written", file.path().string(), file.size(), expected.bytes),
        ExitCode::corrupt);
  return open_.emplace(index, std::move(file)).first->second;
} catch (const FileError& error) {
  if (error.number() == ENOENT) throw StorageError(error.what(), ExitCode::incomplete);
  throw;
}

std::span<const std::byte> TensorReader::block(const StoredTensor& stored, const StoredBox& box, std::size_t number) {
  if (held_box_ == &box && held_number_ == number) return held_;
  held_box_ = nullptr;
  held_.resize(bytes_of_block(stored, box, number));
  read_block(open(box.file), stored, box, number, held_, scratch_);
  held_box_ = &box;
  held_number_ = number;
  return held_;
}

void TensorReader::read(const StoredTensor& stored, const tensor::Box& wanted, std::byte* out) {
  std::size_t element = tensor::size_of(stored.entry.dtype);
  for (const StoredBox& box : stored.boxes)
    for_each_range(box.box, wanted, [&](const ElementRange& range) {
      std::size_t from = static_cast<std::size_t>(range.from) * element;
      std::size_t left = static_cast<std::size_t>(range.count) * element;
      std::byte* to = out + static_cast<std::size_t>(range.to) * element;
      while (left > 0) {
        auto bytes = block(stored, box, from / kBlockBytes).subspan(from % kBlockBytes);
        std::size_t count = std::min(left, bytes.size());
        std::memcpy(to, bytes.data(), count);
        from += count, to += count, left -= count;
      }
    });
}

}  // namespace distdl::checkpoint
