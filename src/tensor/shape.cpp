// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::tensor {

std::int64_t element_count(const Shape& shape) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 16;  // so that bytes are numbers too
  std::int64_t count = 1;
  for (std::int64_t extent : shape) {
    require(extent >= 0, "shape {} has a negative extent", to_string(shape));
    require(!__builtin_mul_overflow(count, extent, &count), "shape {} has too many elements", to_string(shape));
  }
  require(count <= kMost, "shape {} has too many elements", to_string(shape));
  return count;
}

std::string to_string(const Shape& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

Box whole(const Shape& shape) {
  return Box{Shape(shape.size(), 0), shape};
}

}  // namespace distdl::tensor
