// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace distdl::compression {

constexpr std::size_t kScaleBlock = 256;  ///< elements of int8 that share a scale

/// The loops of the codecs for one kind of processor. All give the same bits. Those that encode leave in `values` what
/// the code lacks: the value minus the decoded value.
struct Loops {
  void (*to_bfloat16)(float* values, std::uint16_t* code, std::size_t count);
  void (*from_bfloat16)(const std::uint16_t* code, float* values, std::size_t count);
  /// Finite values beyond the largest of float16 become that.
  void (*to_float16)(float* values, std::uint16_t* code, std::size_t count);
  void (*from_float16)(const std::uint16_t* code, float* values, std::size_t count);
  /// One scale for each kScaleBlock elements. A block with a value that is not finite becomes NaN.
  void (*to_int8)(float* values, float* scales, std::int8_t* code, std::size_t count);
  void (*from_int8)(const float* scales, const std::int8_t* code, float* values, std::size_t count);
  /// means[0]: of the values below 0; means[1]: of the others. Bit i % 32 of word i / 32: which.
  void (*to_signs)(float* values, float* means, std::uint32_t* signs, std::size_t count);
  void (*from_signs)(const float* means, const std::uint32_t* signs, float* values, std::size_t count);
  /// The `most`-th largest magnitude, as the bits of a float without sign; NaN is the largest.
  std::uint32_t (*magnitude)(const float* values, std::size_t count, std::size_t most);
  void (*add)(float* sums, const float* values, std::size_t count);  ///< sums += values
  /// In 16 sums, each of every 16th element, which are then added in their order.
  float (*dot)(const float* one, const float* other, std::size_t count);
  void (*add_scaled)(float* sums, const float* values, float by, std::size_t count);  ///< sums += by * values
};

extern const Loops kBaseline;  ///< any processor of this architecture
extern const Loops kAvx2;      ///< x86 only

/// The fastest that this processor can run.
const Loops& loops();

}  // namespace distdl::compression
