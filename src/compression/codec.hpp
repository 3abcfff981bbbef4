// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <distdl/compression/formats.hpp>

namespace distdl::compression {

/// The most elements that are encoded together.
constexpr std::size_t kMostElements = 1024;

/// Encodes floats in fewer bytes. Pure functions: the bytes follow from the values, on every processor.
///
/// What a code lacks is the residual, value - decoded. In all formats decoded + residual is the value exactly, in
/// float, but for rounding where kOnebit decodes to means, and where kFp16 cannot hold the size of a value. Where
/// a value is not finite, something that is decoded is not finite, too.
///
///     std::vector<std::byte> code(codec.bytes(values.size()));
///     codec.encode(values, code.data());  // values: the residual
struct Codec {
  const Format* format = &kExact;
  double fraction = 0.01;  ///< kTopk: of the elements, above 0, up to 1; at least one element is kept

  /// Bytes of a code of `count` elements, a multiple of 4.
  std::size_t bytes(std::size_t count) const;
  /// Writes bytes(values.size()) bytes, aligned to 4, and leaves the residual in `values`, at most kMostElements.
  void encode(std::span<float> values, std::byte* code) const;
  void decode(const std::byte* code, std::span<float> values) const;
};

/// sums[i] += values[i]; both have the same length.
void add(std::span<float> sums, std::span<const float> values);

}  // namespace distdl::compression
