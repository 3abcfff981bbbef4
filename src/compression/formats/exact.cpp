// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <distdl/compression/formats.hpp>

namespace distdl::compression {
namespace {
std::size_t bytes(const Codec& /*codec*/, std::size_t count) {
  return count * sizeof(float);
}

void encode(const Codec& /*codec*/, std::span<float> values, std::byte* code) {
  std::memcpy(code, values.data(), values.size_bytes());
  std::ranges::fill(values, 0.0F);
}

void decode(const Codec& /*codec*/, const std::byte* code, std::span<float> values) {
  std::memcpy(values.data(), code, values.size_bytes());
}
}  // namespace

const Format kExact{"exact", bytes, encode, decode};

}  // namespace distdl::compression
