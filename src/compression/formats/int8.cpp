// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <distdl/compression/formats.hpp>
#include <distdl/compression/formats/code_bytes.hpp>
#include <distdl/compression/loops/loops.hpp>

// The scales first, then the elements.
namespace distdl::compression {
namespace {
std::size_t bytes_of_scales(std::size_t count) {
  return quotient(count, kScaleBlock) * sizeof(float);
}

std::size_t bytes(const Codec& /*codec*/, std::size_t count) {
  return bytes_of_scales(count) + aligned(count);
}

void encode(const Codec& codec, std::span<float> values, std::byte* code) {
  const std::size_t count = values.size(), scales = bytes_of_scales(count);
  loops().to_int8(values.data(), as<float>(code), as<std::int8_t>(code + scales), count);
  clear_gap(code, scales + count, bytes(codec, count));
}

void decode(const Codec& /*codec*/, const std::byte* code, std::span<float> values) {
  const std::size_t count = values.size();
  loops().from_int8(as<float>(code), as<std::int8_t>(code + bytes_of_scales(count)), values.data(), count);
}
}  // namespace

const Format kInt8{"int8", bytes, encode, decode};

}  // namespace distdl::compression
