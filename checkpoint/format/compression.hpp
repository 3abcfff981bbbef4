// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace distdl::checkpoint {

/// What is done to the bytes of a chunk, as HDF5's filters do it. A new one has its line here and its row in
/// compression.cpp.
enum class Codec { none, zstd, shuffle_zstd };

/// What makes bytes fewer: a filter of HDF5.
struct Compressor {
  const char* name;
  int hdf5_filter;             ///< its number, as registered with The HDF Group
  unsigned level;              ///< the filter's one parameter
  std::size_t most_expansion;  ///< nothing that it makes holds more than this many times its bytes
  /// Returns the bytes written to `to`, or nothing if they do not fit.
  std::optional<std::size_t> (*compress)(std::span<const std::byte> from, std::span<std::byte> to, unsigned level);
  /// Returns what is wrong unless `to` is filled exactly.
  std::string (*decompress)(std::span<const std::byte> from, std::span<std::byte> to);
};

struct CodecEntry {
  Codec codec;
  const char* name;     ///< in job files and manifests
  const char* purpose;  ///< for the help text
  /// First the first bytes of all elements, then the second ones, and so on (HDF5's filter "shuffle"): it makes floats
  /// compress.
  bool shuffles;
  const Compressor* compressor;  ///< null: bytes are stored as they are
};

const CodecEntry& entry_of(Codec codec);
const char* name_of(Codec codec);
/// Nothing for any other name.
std::optional<Codec> codec_called(std::string_view name);
/// "none", "zstd" or ..., for messages.
std::string codec_names();

/// What to store for `bytes`, which are padded with zeros to `chunk` bytes: compressed, which is shorter than `chunk`,
/// or, where that does not save a thirty-second, the padded bytes; empty if these are `bytes` themselves.
std::vector<std::byte> compress(Codec codec, std::span<const std::byte> bytes, std::size_t element, std::size_t chunk);

/// Fills `out` with the first bytes of a chunk that compress() made. `scratch` is memory that stays for the next call.
/// Returns what is wrong with `stored`, the empty text if all is well. No more than `chunk` bytes come into being,
/// whatever `stored` says.
std::string decompress(Codec codec, std::span<const std::byte> stored, std::size_t element, std::size_t chunk,
                       std::span<std::byte> out, std::vector<std::byte>& scratch);

}  // namespace distdl::checkpoint
