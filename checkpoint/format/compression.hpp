// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace distdl::checkpoint {

/// How the bytes of a chunk are encoded, in the same way as by HDF5's filters. A new codec needs its value here and its
/// row in compression.cpp.
enum class Codec { none, zstd, shuffle_zstd };

/// A compressing filter of HDF5.
struct Compressor {
  const char* name;
  int hdf5_filter;             ///< its number, as registered with The HDF Group
  unsigned level;              ///< the filter's one parameter
  std::size_t most_expansion;  ///< upper bound of the ratio of decompressed to compressed bytes
  /// Returns the number of bytes written to `to`, or nothing if they do not fit.
  std::optional<std::size_t> (*compress)(std::span<const std::byte> from, std::span<std::byte> to, unsigned level);
  /// Returns an error text unless `to` is filled exactly.
  std::string (*decompress)(std::span<const std::byte> from, std::span<std::byte> to);
};

struct CodecEntry {
  Codec codec;
  const char* name;     ///< in job files and manifests
  const char* purpose;  ///< for the help text
  /// Stores the first bytes of all elements, then the second bytes, and so on (HDF5's filter "shuffle"). Floating point
  /// values compress better that way.
  bool shuffles;
  const Compressor* compressor;  ///< null: bytes are stored as they are
};

const CodecEntry& entry_of(Codec codec);
const char* name_of(Codec codec);
/// Returns nothing for an unknown name.
std::optional<Codec> codec_called(std::string_view name);
/// The names of all codecs, for messages.
std::string codec_names();

/// The bytes to store for `bytes`, which are padded with zeros to `chunk` bytes. The result is compressed and shorter
/// than `chunk`. If compression saves less than a thirty-second, the result is the padded bytes, or empty if no padding
/// is needed.
std::vector<std::byte> compress(Codec codec, std::span<const std::byte> bytes, std::size_t element, std::size_t chunk);

/// Fills `out` with the first bytes of a chunk that compress() made. `scratch` is memory that is reused by the next
/// call. Returns an error text if `stored` is invalid, else an empty text. At most `chunk` bytes are decompressed,
/// whatever `stored` contains.
std::string decompress(Codec codec, std::span<const std::byte> stored, std::size_t element, std::size_t chunk,
                       std::span<std::byte> out, std::vector<std::byte>& scratch);

}  // namespace distdl::checkpoint
