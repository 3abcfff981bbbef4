// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <limits>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/tensor/element_maths.hpp>
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

struct HostProcessor;
using Maths = ElementMaths<HostProcessor>;

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
}  // namespace

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

std::size_t size_of(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].size;
}
std::string_view name_of(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].name;
}

double value_of(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::f32:
      return load<float>(at);
    case DType::f64:
      return load<double>(at);
    case DType::f16:
      return Maths::Float16::widen(load<std::uint16_t>(at));
    case DType::bf16:
      return Maths::Bfloat16::widen(load<std::uint16_t>(at));
    case DType::i32:
      return load<std::int32_t>(at);
    case DType::i64:
      return static_cast<double>(load<std::int64_t>(at));
    case DType::u8:
      return load<std::uint8_t>(at);
  }
  return 0;
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
