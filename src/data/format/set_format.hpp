// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <distdl/data/data_set.hpp>
#include <distdl/data/format/chunk_reader.hpp>
#include <distdl/data/format/hdf5_file.hpp>
#include <distdl/data/format/hdf5_rows.hpp>

/// The layout of a set in an HDF5 file; docs/data-format.md describes it in words.
namespace distdl::data {

inline constexpr const char* kFormatName = "distdl-data";
inline constexpr std::int64_t kFormatVersion = 1;

/// A chunked dataset that a set must have.
struct DatasetSpec {
  std::string name;
  StoredNumber type;
  tensor::Shape shape;
  bool is_in_digest = true;  ///< false: sets are the same without it
};
inline constexpr const char* kTokenizer = "tokenizer";  ///< the dataset with a tokenizer.json or tokenizer.model

/// data.cache_mib in bytes. Throws ConfigError if it is invalid.
std::size_t cache_bytes(std::int64_t cache_mib);

/// Throws ConfigError if the format cannot represent the description.
std::vector<DatasetSpec> datasets_of(const Description& description);

/// Writes the attributes of the root group and their checksum. Throws StorageError.
void write_description(const hdf5::File& file, const Description& description);

struct OpenSet {
  hdf5::File file;
  Description description;
};

/// Throws StorageError: incomplete, corrupt or incompatible.
OpenSet open_set(const std::filesystem::path& path, Metadata metadata = Metadata::shared);

/// Opens one dataset of a set. Throws as the constructor of ChunkReader does, which explains `cache_bytes`.
ChunkReader open_chunks(const OpenSet& set, const std::filesystem::path& path, const DatasetSpec& spec,
                        std::size_t cache_bytes);

/// The digest of docs/data-format.md. Costs no reading: the checksums of the chunks stand for their bytes.
std::string digest_of(const Description& description, std::span<const ChunkReader* const> datasets);

}  // namespace distdl::data
