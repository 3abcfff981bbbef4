// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace distdl::compression {

struct Codec;

/// A row of the table of formats. Each is in a file of formats/. Its functions get 1 to kMostElements
/// values, and the codec for its parameters; what they do is in the description of Codec.
struct Format {
  std::string_view name;
  std::size_t (*bytes)(const Codec& codec, std::size_t count);
  void (*encode)(const Codec& codec, std::span<float> values, std::byte* code);
  void (*decode)(const Codec& codec, const std::byte* code, std::span<float> values);
};

extern const Format kExact;   ///< float32
extern const Format kBf16;    ///< bfloat16: rounded to nearest, like the next ones
extern const Format kFp16;    ///< float16
extern const Format kInt8;    ///< a scale for each 256 elements
extern const Format kTopk;    ///< the largest magnitudes and their places
extern const Format kOnebit;  ///< the sign, and the means of negative and of other values (Seide et al., 2014)

inline constexpr std::array kFormats{&kExact, &kBf16, &kFp16, &kInt8, &kTopk, &kOnebit};

}  // namespace distdl::compression
