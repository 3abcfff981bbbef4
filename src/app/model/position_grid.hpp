// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace distdl::app {

/// Positions of the patches of an image.
struct PositionGrid {
  std::int64_t height = 0, width = 0;
  bool operator==(const PositionGrid&) const = default;
};

/// The square grid of `rows` positions of which the first is the class token's; {0, 0}: they are no such grid.
PositionGrid square_grid(std::int64_t rows);

/// The position embedding of a vision transformer for another image size: the first row stays, the others are
/// interpolated from grid to grid, bicubic with antialias, as timm's resample_abs_pos_embed() does. `rows`: (1 + places
/// of `from`, values). Result: (1 + places of `to`, values).
std::vector<float> resampled_positions(std::span<const float> rows, const PositionGrid& from, const PositionGrid& to);

}  // namespace distdl::app
