// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace distdl::tensor {

/// Extents, outermost first: (N, C, H, W), (out, in). Row-major unless a backend says otherwise.
using Shape = std::vector<std::int64_t>;

/// Product of the extents; 1 for the empty shape. Throws ConfigError on a negative extent or overflow.
std::int64_t element_count(const Shape& shape);
/// "(64, 1, 28, 28)"
std::string to_string(const Shape& shape);

enum class DType { f32, f64, f16, bf16, i32, i64, u8 };
std::size_t size_of(DType dtype);
/// "f32", "i64", ...
std::string_view name_of(DType dtype);
/// One element as it lies in memory, aligned or not. Exact, but for large i64.
double value_of(DType dtype, const std::byte* element);
/// Throws ConfigError for an unknown name.
DType dtype_from(std::string_view name);

/// A rectangular part of a tensor: `offset[d] .. offset[d] + extent[d]` in each dimension.
struct Box {
  Shape offset;
  Shape extent;
  bool operator==(const Box&) const = default;
};
/// The whole of a tensor.
Box whole(const Shape& shape);

}  // namespace distdl::tensor
