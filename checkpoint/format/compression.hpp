// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace distdl::checkpoint {

/// What is done to the bytes of a chunk, as HDF5's filters of these names do it: "shuffle" brings the first bytes of
/// all elements together, then the second ones, and so on, which is what makes floats compress.
enum class Codec { none, zstd, shuffle_zstd };

/// "none", "zstd", "shuffle+zstd"
const char* name_of(Codec codec);
/// Nothing for any other name.
std::optional<Codec> codec_called(std::string_view name);

/// No zstd frame is so short that it holds more than this many times its bytes: one block of 128 KiB takes 4 bytes.
inline constexpr std::size_t kMostExpansion = 32768;

/// What to store for `bytes`, which are padded with zeros to `chunk` bytes: compressed, which is shorter than `chunk`,
/// or, where that does not save a thirty-second, the padded bytes; empty if these are `bytes` themselves.
std::vector<std::byte> compress(Codec codec, std::span<const std::byte> bytes, std::size_t element, std::size_t chunk);

/// Fills `out` with the first bytes of a chunk that compress() made. `scratch` is memory that stays for the next call.
/// Returns what is wrong with `stored`, the empty text if all is well. No more than `chunk` bytes come into being,
/// whatever `stored` says.
std::string decompress(Codec codec, std::span<const std::byte> stored, std::size_t element, std::size_t chunk,
                       std::span<std::byte> out, std::vector<std::byte>& scratch);

}  // namespace distdl::checkpoint
