// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include <distdl/compression/codec.hpp>
#include <distdl/compression/formats/code_bytes.hpp>
#include <distdl/compression/loops/loops.hpp>

// The places first, then the values, in the order of the places.
namespace distdl::compression {
namespace {
std::size_t kept(const Codec& codec, std::size_t count) {
  const auto most = static_cast<std::size_t>(std::llround(codec.fraction * static_cast<double>(count)));
  return std::clamp<std::size_t>(most, 1, count);
}

std::size_t bytes_of_places(std::size_t most) {
  return aligned(most * sizeof(std::uint16_t));
}

std::size_t bytes(const Codec& codec, std::size_t count) {
  const std::size_t most = kept(codec, count);
  return bytes_of_places(most) + most * sizeof(float);
}

/// The code has the first of equal magnitudes.
void encode(const Codec& codec, std::span<float> values, std::byte* code) {
  const std::size_t most = kept(codec, values.size());
  const std::uint32_t least = loops().magnitude(values.data(), values.size(), most);
  const auto size = [&](std::size_t i) { return std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFU; };
  auto* const places = as<std::uint16_t>(code);
  auto* const found = as<float>(code + bytes_of_places(most));
  std::size_t above = 0;
  for (std::size_t i = 0; i < values.size(); ++i) above += size(i) > least ? 1 : 0;
  std::size_t equal = most - above, next = 0;
  for (std::size_t i = 0; i < values.size() && next < most; ++i) {
    if (size(i) < least || (size(i) == least && equal == 0)) continue;
    if (size(i) == least) --equal;
    places[next] = static_cast<std::uint16_t>(i);
    found[next++] = values[i];
    values[i] = 0;
  }
  if (most % 2 == 1) places[most] = 0;  // the gap
}

void decode(const Codec& codec, const std::byte* code, std::span<float> values) {
  const std::size_t most = kept(codec, values.size());
  const auto* const places = as<std::uint16_t>(code);
  const auto* const found = as<float>(code + bytes_of_places(most));
  std::ranges::fill(values, 0.0F);
  for (std::size_t k = 0; k < most; ++k)
    if (places[k] < values.size()) values[places[k]] = found[k];
}
}  // namespace

const Format kTopk{"topk", bytes, encode, decode};

}  // namespace distdl::compression
