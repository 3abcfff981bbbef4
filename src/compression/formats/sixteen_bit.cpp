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

template <auto To>
void encode(const Codec& codec, std::span<float> values, std::byte* code) {
  const std::size_t count = values.size();
  (loops().*To)(values.data(), as<std::uint16_t>(code), count);
  clear_gap(code, count * sizeof(std::uint16_t), bytes(codec, count));
}

template <auto From>
void decode(const Codec& /*codec*/, const std::byte* code, std::span<float> values) {
  (loops().*From)(as<std::uint16_t>(code), values.data(), values.size());
}
}  // namespace

const Format kBf16{"bf16", bytes, encode<&Loops::to_bfloat16>, decode<&Loops::from_bfloat16>};
const Format kFp16{"fp16", bytes, encode<&Loops::to_float16>, decode<&Loops::from_float16>};

}  // namespace distdl::compression
