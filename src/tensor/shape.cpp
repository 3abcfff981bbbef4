// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::tensor {
namespace {
struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::size_t size;
};
constexpr std::array<DTypeInfo, 7> kDTypes{{{DType::f32, "f32", 4},
                                            {DType::f64, "f64", 8},
                                            {DType::f16, "f16", 2},
                                            {DType::bf16, "bf16", 2},
                                            {DType::i32, "i32", 4},
                                            {DType::i64, "i64", 8},
                                            {DType::u8, "u8", 1}}};
}  // namespace

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) {
    require(extent >= 0, "shape {} has a negative extent", to_string(shape));
    require(!__builtin_mul_overflow(count, extent, &count), "shape {} has too many elements", to_string(shape));
  }
  return count;
}

std::string to_string(const Shape& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

std::size_t size_of(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].size;
}
std::string_view name_of(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].name;
}

DType dtype_from(std::string_view name) {
  for (const auto& info : kDTypes)
    if (info.name == name) return info.dtype;
  throw ConfigError(fmt::format("\"{}\" is not a data type; known are f32, f64, f16, bf16, i32, i64, u8", name));
}

Box whole(const Shape& shape) {
  return Box{Shape(shape.size(), 0), shape};
}

}  // namespace distdl::tensor
