// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <distdl/compression/formats.hpp>
#include <distdl/compression/formats/code_bytes.hpp>
#include <distdl/compression/loops/loops.hpp>

namespace distdl::compression {
namespace {
std::size_t bytes(const Codec& /*codec*/, std::size_t count) {
  return aligned(count * sizeof(std::uint16_t));
}

void encode(const Codec& codec, std::span<float> values, std::byte* code) {
  const std::size_t count = values.size();
  loops().to_bfloat16(values.data(), as<std::uint16_t>(code), count);
  clear_gap(code, count * sizeof(std::uint16_t), bytes(codec, count));
}

void decode(const Codec& /*codec*/, const std::byte* code, std::span<float> values) {
  loops().from_bfloat16(as<std::uint16_t>(code), values.data(), values.size());
}
}  // namespace

const Format kBf16{"bf16", bytes, encode, decode};

}  // namespace distdl::compression
