// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace distdl::data {

/// How one axis of an image is resized with a triangle filter that widens where the image shrinks: bilinear with
/// antialias. Weights and rounding are those of Pillow (Resample.c), so the bytes are the same.
struct ResampledAxis {
  /// `begin` and `extent`: the part of the axis that is resized to `resized` pixels, as if there were nothing around
  /// it. Pixels `first` .. `first + count - 1` of these are wanted.
  ResampledAxis(double begin, double extent, std::int64_t resized, std::int64_t first, std::int64_t count);

  std::int64_t from = 0, to = 0;      ///< the pixels that are read: from .. to - 1
  std::int64_t taps = 0;              ///< places for weights of each result
  std::vector<std::int64_t> begins;   ///< the first pixel that each result reads
  std::vector<std::int64_t> lengths;  ///< and how many
  std::vector<std::int32_t> weights;  ///< whose sum is about 2^22
};

/// Resizes rows of RGB. `left`, `top`: the place of rgb[0] on the axes; `width`: pixels of each of its rows. `out`:
/// as many rows of RGB as the axes have results. `between`: memory for later calls.
void resample(std::span<const std::uint8_t> rgb, std::int64_t left, std::int64_t top, std::int64_t width,
              const ResampledAxis& columns, const ResampledAxis& rows, std::vector<std::uint8_t>& between,
              std::vector<std::uint8_t>& out);

}  // namespace distdl::data
