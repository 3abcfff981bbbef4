// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace distdl::tensor {

/// The type of the elements of a tensor. Ranks exchange all of these. They reduce those from float32 to int64: byte is
/// an unsigned integer, and those behind int64 are for arrays of others, which are saved.
enum class DataType : std::uint8_t {
  byte,
  float32,
  float64,
  float16,
  bfloat16,
  int32,
  int64,
  int8,
  int16,
  boolean,    ///< one byte, 0 is false
  complex64,  ///< real and imaginary part, float32 each
  complex128
};
enum class Reduction : std::uint8_t { sum, maximum, minimum, average };

/// The size in bytes.
constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::byte:
    case DataType::int8:
    case DataType::boolean:
      return 1;
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::int16:
      return 2;
    case DataType::float32:
    case DataType::int32:
      return 4;
    case DataType::complex128:
      return 16;
    default:
      return 8;
  }
}

constexpr bool is_floating(DataType type) {
  return type >= DataType::float32 && type <= DataType::bfloat16;
}
constexpr bool is_reducible(DataType type) {
  return type >= DataType::float32 && type <= DataType::int64;
}

/// An element as numbers: complex ones consist of two.
struct ElementParts {
  DataType type = DataType::float32;
  std::size_t count = 1;
  constexpr std::size_t bytes() const { return count * size_of(type); }
};
constexpr ElementParts parts_of(DataType type) {
  if (type == DataType::complex64) return {DataType::float32, 2};
  return type == DataType::complex128 ? ElementParts{DataType::float64, 2} : ElementParts{type};
}

/// The code in checkpoints, such as "f32" or "u8".
std::string_view code_of(DataType type);
/// Throws ConfigError for an unknown code.
DataType data_type_from_code(std::string_view code);
/// The value of one element in memory, aligned or not. It is exact except for large int64 values. Of a complex number
/// the real part.
double value_of(DataType type, const std::byte* at);

}  // namespace distdl::tensor
