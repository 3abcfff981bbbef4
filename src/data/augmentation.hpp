// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include <distdl/tensor/shape.hpp>

namespace distdl::data {

/// The random transformation of an image.
struct View {
  std::int64_t down = 0, right = 0;  ///< shift in pixels; new pixels are black
  bool mirrored = false;             ///< mirrored left to right after the shift
};

/// The view of a sample in an epoch. It is a pure function of all arguments, the same on every rank and after every
/// restart. The shift is -crop .. crop, like a random crop of the image padded by `crop` (He et al., "Deep residual
/// learning", 2016, 4.2).
View view_of(std::uint64_t seed, std::int64_t epoch, std::int64_t sample, std::int64_t crop, bool mirror);

/// Writes the pixel values of the view to `out`, (C, H, W). `pixels` are (C, H, W); `tables` as pixel_tables().
void render(std::span<const std::uint8_t> pixels, const tensor::Shape& shape, const View& view,
            std::span<const std::array<float, 256>> tables, float* out);
/// Writes its pixels themselves.
void render(std::span<const std::uint8_t> pixels, const tensor::Shape& shape, const View& view, std::uint8_t* out);

}  // namespace distdl::data
