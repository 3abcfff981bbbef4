// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <distdl/checkpoint/file_system.hpp>
#include <distdl/checkpoint/format/compression.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/checkpoint/summary.hpp>

namespace distdl::checkpoint {

/// A block of a box as it lies in a file if it is compressed: decompressed, or with chunk_bytes() as it is, it has
/// chunk_bytes(), where the last one is padded with zeros.
struct StoredChunk {
  std::uint64_t offset = 0;  ///< in bytes from the start of the file
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;  ///< CRC-32C of these
};

/// A box of a tensor as it lies in a file: contiguous, row-major; or each of its blocks for itself, compressed.
struct StoredBox {
  tensor::Box box;
  std::size_t file = 0;                  ///< index into Manifest::files
  std::uint64_t offset = 0;              ///< in bytes from the start of the file; means nothing if there are chunks
  std::vector<std::uint32_t> checksums;  ///< CRC-32C of each kBlockBytes of the box, the last may be shorter
  Codec codec = Codec::none;             ///< of the chunks
  std::vector<StoredChunk> chunks = {};  ///< one for each checksum; none: the box is contiguous
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

/// What a checkpoint folder holds: the only thing a restore trusts, and enough to read every tensor without HDF5.
struct Manifest {
  Step step;
  std::int64_t written_at = 0;
  int world_size = 0;
  std::uint64_t start = 0;  ///< Owner::start; 0: not known
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;  ///< in name order
  State state;
};

std::uint64_t bytes_of(const StoredTensor& tensor, const StoredBox& box);
/// Whether a part of it is.
bool is_compressed(const StoredTensor& tensor);
/// Bytes of each chunk of a box, uncompressed.
std::size_t chunk_bytes(const StoredTensor& tensor, const StoredBox& box);
/// Bytes of a file that hold a box, or a chunk of it.
struct Extent {
  std::uint64_t begin, end;
};
std::vector<Extent> extents_of(const StoredTensor& tensor, const StoredBox& box);

/// Nothing longer is written or read. About 60 bytes are needed for a box, and 11 for each 4 MiB, or 40 if
/// they are compressed.
inline constexpr std::uint64_t kLargestManifest = std::uint64_t{512} << 20;

/// JSON, then a line with the SHA-256 of all before it. Throws StorageError (incompatible) if that is too long.
std::string to_text(const Manifest& manifest);
/// Checks the hash and the form, not yet whether it makes sense. `origin` names the text in errors.
/// Throws StorageError: corrupt, or incompatible if a newer version wrote it.
Manifest parse_manifest(const std::string& text, const std::string& origin);
/// Whether a tensor's name is harmless and its size can be. Throws StorageError (corrupt).
void check_shape(const TensorEntry& entry, const std::string& origin);
/// Whether names are harmless, boxes lie inside their files and make up whole tensors. Throws StorageError (corrupt).
void check_manifest(const Manifest& manifest, const std::string& origin);
/// Joins the parts that several writers made. Throws StorageError (incompatible) if they disagree about a tensor.
Manifest join(const std::vector<Manifest>& parts);
/// Reads, parses and checks the manifest of a checkpoint folder; also that its step is that of the folder's name.
/// Throws StorageError: incomplete if there is none.
Manifest load_manifest(FileSystem& files, const std::filesystem::path& folder);

Summary summary_of(const Manifest& manifest, const std::filesystem::path& folder);

}  // namespace distdl::checkpoint
