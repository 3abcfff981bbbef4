// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <distdl/tensor/shape.hpp>

namespace distdl::data {

/// The random transformation of one image.
struct View {
  std::int64_t down = 0, right = 0;  ///< pixels that it is shifted by; new pixels are black
  bool mirrored = false;             ///< left to right, after that
};

/// The view of a sample in an epoch: a pure function of all four, the same on every rank and after every restart.
/// Shifts by -crop .. crop, as a random crop of the image padded by `crop` (He et al., "Deep residual learning",
/// 2016, 4.2).
View view_of(std::uint64_t seed, std::int64_t epoch, std::int64_t sample, std::int64_t crop, bool mirror);

/// out: (C, H, W), the value of each pixel of the view. pixels: (C, H, W).
void render(std::span<const std::uint8_t> pixels, const tensor::Shape& shape, const View& view,
            const std::array<float, 256>& values, float* out);

}  // namespace distdl::data
