// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <distdl/compression/codec.hpp>
#include <distdl/compression/loops/loops.hpp>

namespace distdl::compression {
namespace {
constexpr std::size_t kAlignment = 4, kWordBits = 32;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

constexpr std::size_t quotient(std::size_t count, std::size_t by) {
  return (count + by - 1) / by;
}

template <class T>
T* as(std::byte* bytes) {
  return reinterpret_cast<T*>(bytes);
}
template <class T>
const T* as(const std::byte* bytes) {
  return reinterpret_cast<const T*>(bytes);
}

std::size_t kept(double fraction, std::size_t count) {
  const auto most = static_cast<std::size_t>(std::llround(fraction * static_cast<double>(count)));
  return std::clamp<std::size_t>(most, 1, count);
}

std::size_t bytes_of_scales(std::size_t count) {
  return quotient(count, kScaleBlock) * sizeof(float);
}

/// The places first, then the values, in the order of the places. Of equal magnitudes the first are kept.
void encode_top(std::span<float> values, std::byte* code, std::size_t most) {
  const std::uint32_t least = loops().magnitude(values.data(), values.size(), most);
  const auto size = [&](std::size_t i) { return std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFU; };
  auto* const places = as<std::uint16_t>(code);
  auto* const found = as<float>(code + aligned(most * sizeof(std::uint16_t)));
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

void decode_top(const std::byte* code, std::span<float> values, std::size_t most) {
  const auto* const places = as<std::uint16_t>(code);
  const auto* const found = as<float>(code + aligned(most * sizeof(std::uint16_t)));
  std::ranges::fill(values, 0.0F);
  for (std::size_t k = 0; k < most; ++k)
    if (places[k] < values.size()) values[places[k]] = found[k];
}

/// The bytes after the last element.
void clear_gap(std::byte* code, std::size_t used, std::size_t all) {
  std::memset(code + used, 0, all - used);
}
}  // namespace

std::size_t Codec::bytes(std::size_t count) const {
  if (count == 0) return 0;
  switch (format) {
    case Format::bfloat16:
    case Format::float16:
      return aligned(count * sizeof(std::uint16_t));
    case Format::int8:
      return bytes_of_scales(count) + aligned(count);
    case Format::top:
      return aligned(kept(fraction, count) * sizeof(std::uint16_t)) + kept(fraction, count) * sizeof(float);
    case Format::one_bit:
      return 2 * sizeof(float) + quotient(count, kWordBits) * sizeof(std::uint32_t);
    case Format::exact:
      break;
  }
  return count * sizeof(float);
}

void Codec::encode(std::span<float> values, std::byte* code) const {
  assert(values.size() <= kMostElements);
  const std::size_t count = values.size();
  if (count == 0) return;
  switch (format) {
    case Format::bfloat16:
    case Format::float16: {
      const auto encode = format == Format::bfloat16 ? loops().to_bfloat16 : loops().to_float16;
      encode(values.data(), as<std::uint16_t>(code), count);
      return clear_gap(code, count * sizeof(std::uint16_t), bytes(count));
    }
    case Format::int8: {
      const std::size_t scales = bytes_of_scales(count);
      loops().to_int8(values.data(), as<float>(code), as<std::int8_t>(code + scales), count);
      return clear_gap(code, scales + count, bytes(count));
    }
    case Format::top:
      return encode_top(values, code, kept(fraction, count));
    case Format::one_bit:
      return loops().to_signs(values.data(), as<float>(code), as<std::uint32_t>(code + 2 * sizeof(float)), count);
    case Format::exact:
      std::memcpy(code, values.data(), values.size_bytes());
      std::ranges::fill(values, 0.0F);
  }
}

void Codec::decode(const std::byte* code, std::span<float> values) const {
  const std::size_t count = values.size();
  if (count == 0) return;
  switch (format) {
    case Format::bfloat16:
      return loops().from_bfloat16(as<std::uint16_t>(code), values.data(), count);
    case Format::float16:
      return loops().from_float16(as<std::uint16_t>(code), values.data(), count);
    case Format::int8:
      return loops().from_int8(as<float>(code), as<std::int8_t>(code + bytes_of_scales(count)), values.data(), count);
    case Format::top:
      return decode_top(code, values, kept(fraction, count));
    case Format::one_bit:
      return loops().from_signs(as<float>(code), as<std::uint32_t>(code + 2 * sizeof(float)), values.data(), count);
    case Format::exact:
      std::memcpy(values.data(), code, values.size_bytes());
  }
}

void add(std::span<float> sums, std::span<const float> values) {
  loops().add(sums.data(), values.data(), sums.size());
}

}  // namespace distdl::compression
