// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace distdl::data {

struct Point {
  float x, y;
};

/// A plane figure of about radius 1 around the origin.
struct Figure {
  std::string_view name;
  /// Signed distance from a point to the outline, negative inside; it is right at least near the outline (Quilez, "2D
  /// distance functions"). `thickness`, 0.1 to 0.3, is that of lines if the figure has any.
  float (*distance)(Point p, float thickness);
};

/// All figures; the first few differ most.
std::span<const Figure> figures();

}  // namespace distdl::data
