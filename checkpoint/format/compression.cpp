// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <zstd.h>

#include <distdl/base/errors.hpp>
#include <distdl/checkpoint/format/compression.hpp>

namespace distdl::checkpoint {
namespace {
constexpr int kLevel = 1;  // as fast as zstd gets: a save should not wait for the last percent

/// Byte b of element i goes to b * count + i, or back.
template <std::size_t kElement>
void shuffle(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t b = 0; b < kElement; ++b)
    for (std::size_t i = 0; i < count; ++i) to[b * count + i] = from[i * kElement + b];
}
/// Only the first `wanted` of `count` elements.
template <std::size_t kElement>
void unshuffle(const std::byte* from, std::byte* to, std::size_t count, std::size_t wanted) {
  for (std::size_t i = 0; i < wanted; ++i)
    for (std::size_t b = 0; b < kElement; ++b) to[i * kElement + b] = from[b * count + i];
}

/// Calls work with the size of an element as a constant.
template <class Work>
void with_element(std::size_t element, Work&& work) {
  switch (element) {
    case 2:
      return work(std::integral_constant<std::size_t, 2>());
    case 4:
      return work(std::integral_constant<std::size_t, 4>());
    case 8:
      return work(std::integral_constant<std::size_t, 8>());
  }
  throw InternalError(fmt::format("elements of {} bytes cannot be shuffled", element));
}

bool is_shuffled(Codec codec, std::size_t element) {
  return codec == Codec::shuffle_zstd && element > 1;
}
}  // namespace

const char* name_of(Codec codec) {
  switch (codec) {
    case Codec::none:
      return "none";
    case Codec::zstd:
      return "zstd";
    case Codec::shuffle_zstd:
      return "shuffle+zstd";
  }
  return "?";
}

std::optional<Codec> codec_called(std::string_view name) {
  for (Codec codec : {Codec::none, Codec::zstd, Codec::shuffle_zstd})
    if (name == name_of(codec)) return codec;
  return std::nullopt;
}

std::vector<std::byte> compress(Codec codec, std::span<const std::byte> bytes, std::size_t element, std::size_t chunk) {
  std::vector<std::byte> padded, shuffled;
  std::span<const std::byte> plain = bytes;
  if (bytes.size() < chunk) {
    padded.assign(bytes.begin(), bytes.end());
    padded.resize(chunk);
    plain = padded;
  }
  std::span<const std::byte> input = plain;
  if (is_shuffled(codec, element)) {
    shuffled.resize(chunk);
    with_element(element, [&](auto size) { shuffle<size()>(plain.data(), shuffled.data(), chunk / size()); });
    input = shuffled;
  }
  std::vector<std::byte> packed(chunk - std::max<std::size_t>(chunk / 32, 1));
  std::size_t got = ZSTD_compress(packed.data(), packed.size(), input.data(), input.size(), kLevel);
  if (ZSTD_isError(got)) return padded;  // it does not fit
  packed.resize(got);
  packed.shrink_to_fit();
  return packed;
}

std::string decompress(Codec codec, std::span<const std::byte> stored, std::size_t element, std::size_t chunk,
                       std::span<std::byte> out, std::vector<std::byte>& scratch) {
  if (stored.size() >= chunk) {
    std::copy_n(stored.begin(), out.size(), out.begin());
    return "";
  }
  bool shuffled = is_shuffled(codec, element), straight = !shuffled && out.size() == chunk;
  if (!straight) scratch.resize(chunk);
  std::byte* plain = straight ? out.data() : scratch.data();
  std::size_t got = ZSTD_decompress(plain, chunk, stored.data(), stored.size());
  if (ZSTD_isError(got)) return fmt::format("zstd: {}", ZSTD_getErrorName(got));
  if (got != chunk) return fmt::format("zstd: {} bytes come out", got);
  if (shuffled)
    with_element(element,
                 [&](auto size) { unshuffle<size()>(plain, out.data(), chunk / size(), out.size() / size()); });
  else if (!straight)
    std::memcpy(out.data(), plain, out.size());
  return "";
}

}  // namespace distdl::checkpoint
