// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include <distdl/checkpoint/format/manifest.hpp>
#include <distdl/checkpoint/format/stored_block.hpp>
#include <distdl/files/file_operations.hpp>

namespace distdl::checkpoint {

/// Reads any box of a checkpoint's tensors, however they are divided in the files. Files are read at the offsets in the
/// manifest, without HDF5. No byte is returned before the checksum of its block is verified. For one thread.
class TensorReader {
 public:
  /// Throws StorageError if the manifest is missing or damaged.
  TensorReader(FileSystem& files, Path folder);

  const Manifest& manifest() const noexcept { return manifest_; }
  /// Returns nullptr if there is no tensor of that name.
  const StoredTensor* find(const std::string& name) const;
  /// Fills `out` with the box `wanted` of the tensor, dense and row-major. Throws StorageError: corrupt, with file,
  /// tensor and block; incomplete if a file is missing.
  void read(const StoredTensor& stored, const tensor::Box& wanted, std::byte* out);

 private:
  OpenFile& open(std::size_t index);
  std::span<const std::byte> block(const StoredTensor& stored, const StoredBox& box, std::size_t number);

  FileSystem& files_;
  Path folder_;
  Manifest manifest_;
  std::map<std::size_t, OpenFile> open_;
  // The block that was read last.
  const StoredBox* held_box_ = nullptr;
  std::size_t held_number_ = 0;
  std::vector<std::byte> held_;
  Scratch scratch_;
};

}  // namespace distdl::checkpoint
