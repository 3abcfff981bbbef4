// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <distdl/checkpoint/format/compression.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/summary.hpp>
#include <distdl/files/file_system.hpp>

namespace distdl::checkpoint {

/// A block of a compressed box in a file. It has chunk_bytes() when decompressed; the last block is padded with zeros.
/// A block that compression does not shorten is stored uncompressed, with chunk_bytes().
struct StoredChunk {
  std::uint64_t offset = 0;  ///< in bytes from the start of the file
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;  ///< CRC-32C of these bytes
};

/// A box of a tensor in a file: contiguous and row-major, or divided into compressed blocks.
struct StoredBox {
  tensor::Box box;
  std::size_t file = 0;                  ///< index into Manifest::files
  std::uint64_t offset = 0;              ///< in bytes from the start of the file; unused if there are chunks
  std::vector<std::uint32_t> checksums;  ///< CRC-32C of each kBlockBytes of the box; the last block may be shorter
  Codec codec = Codec::none;             ///< codec of the chunks
  std::vector<StoredChunk> chunks = {};  ///< one per checksum; empty: the box is contiguous
};

struct StoredTensor {
  TensorEntry entry;
  std::vector<StoredBox> boxes;
};

struct StoredFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t rest = 0;  ///< CRC-32C of all bytes of the file that belong to no box, in order
};

/// The contents of a checkpoint folder. It is the only source that a restore trusts, and suffices to read every tensor
/// without HDF5.
struct Manifest {
  Step step;
  std::int64_t written_at = 0;
  int world_size = 0;
  std::uint64_t start = 0;  ///< Owner::start; 0: unknown
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;  ///< in name order
  State state;
};

std::uint64_t bytes_of(const StoredTensor& tensor, const StoredBox& box);
/// Whether any box of the tensor is compressed.
bool is_compressed(const StoredTensor& tensor);
/// Bytes of each chunk of a box before compression.
std::size_t chunk_bytes(const StoredTensor& tensor, const StoredBox& box);
/// The bytes of a file that contain a box, or one of its chunks.
struct Extent {
  std::uint64_t begin, end;
};
std::vector<Extent> extents_of(const StoredTensor& tensor, const StoredBox& box);

/// Longer manifests are neither written nor read. A box needs about 60 bytes, and each 4 MiB need 11 bytes, or 40 if
/// they are compressed.
inline constexpr std::uint64_t kLargestManifest = std::uint64_t{512} << 20;

/// JSON, followed by a line with the SHA-256 of all preceding bytes. Throws StorageError (incompatible) if that is too
/// long.
std::string to_text(const Manifest& manifest);
/// Checks the hash and the syntax, but not whether the values are consistent. `origin` names the text in errors. Throws
/// StorageError: corrupt, or incompatible if a newer version wrote it.
Manifest parse_manifest(const std::string& text, const std::string& origin);
/// Checks that a tensor's name is safe and its size possible. Throws StorageError (corrupt).
void check_shape(const TensorEntry& entry, const std::string& origin);
/// Checks that names are safe, boxes lie inside their files, and the boxes of each tensor cover it exactly. Throws
/// StorageError (corrupt).
void check_manifest(const Manifest& manifest, const std::string& origin);
/// Joins the parts of several writers. Throws StorageError (incompatible) if they disagree about a tensor.
Manifest join(const std::vector<Manifest>& parts);
/// Reads, parses and checks the manifest of a checkpoint folder, including that its step is that of the folder's name.
/// Throws StorageError: incomplete if there is no manifest.
Manifest load_manifest(FileSystem& files, const std::filesystem::path& folder);

Summary summary_of(const Manifest& manifest, const std::filesystem::path& folder);

}  // namespace distdl::checkpoint
