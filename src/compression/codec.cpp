// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include <distdl/compression/codec.hpp>
#include <distdl/compression/loops/loops.hpp>

namespace distdl::compression {

std::size_t Codec::bytes(std::size_t count) const {
  return count == 0 ? 0 : format->bytes(*this, count);
}

void Codec::encode(std::span<float> values, std::byte* code) const {
  assert(values.size() <= kMostElements);
  if (!values.empty()) format->encode(*this, values, code);
}

void Codec::decode(const std::byte* code, std::span<float> values) const {
  if (!values.empty()) format->decode(*this, code, values);
}

void add(std::span<float> sums, std::span<const float> values) {
  loops().add(sums.data(), values.data(), sums.size());
}

}  // namespace distdl::compression
