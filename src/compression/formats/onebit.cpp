// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <distdl/compression/formats.hpp>
#include <distdl/compression/formats/code_bytes.hpp>
#include <distdl/compression/loops/loops.hpp>

// The two means first, then the signs.
namespace distdl::compression {
namespace {
constexpr std::size_t kMeans = 2 * sizeof(float), kWordBits = 32;

std::size_t bytes(const Codec& /*codec*/, std::size_t count) {
  return kMeans + quotient(count, kWordBits) * sizeof(std::uint32_t);
}

void encode(const Codec& /*codec*/, std::span<float> values, std::byte* code) {
  loops().to_signs(values.data(), as<float>(code), as<std::uint32_t>(code + kMeans), values.size());
}

void decode(const Codec& /*codec*/, const std::byte* code, std::span<float> values) {
  loops().from_signs(as<float>(code), as<std::uint32_t>(code + kMeans), values.data(), values.size());
}
}  // namespace

const Format kOnebit{"onebit", bytes, encode, decode};

}  // namespace distdl::compression
