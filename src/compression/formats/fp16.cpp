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
  loops().to_float16(values.data(), as<std::uint16_t>(code), count);
  clear_gap(code, count * sizeof(std::uint16_t), bytes(codec, count));
}

void decode(const Codec& /*codec*/, const std::byte* code, std::span<float> values) {
  loops().from_float16(as<std::uint16_t>(code), values.data(), values.size());
}
}  // namespace

const Format kFp16{"fp16", bytes, encode, decode};

}  // namespace distdl::compression
