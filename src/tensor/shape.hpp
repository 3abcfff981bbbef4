// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace distdl::tensor {

/// Extents, outermost first: (N, C, H, W), (out, in). The order is row-major unless a backend uses another one.
using Shape = std::vector<std::int64_t>;

/// Product of the extents; 1 for the empty shape. Throws ConfigError on a negative extent or overflow.
std::int64_t element_count(const Shape& shape);
/// The shape as text, such as "(64, 1, 28, 28)".
std::string to_string(const Shape& shape);

/// A rectangular part of a tensor: `offset[d] .. offset[d] + extent[d]` in each dimension.
struct Box {
  Shape offset;
  Shape extent;
  bool operator==(const Box&) const = default;
};
/// The box of the whole tensor.
Box whole(const Shape& shape);

}  // namespace distdl::tensor
