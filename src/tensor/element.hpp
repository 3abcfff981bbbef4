// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace distdl::tensor {

/// The type of the elements of a tensor. Ranks exchange all of these and reduce all except byte, which is an unsigned
/// integer.
enum class DataType : std::uint8_t { byte, float32, float64, float16, bfloat16, int32, int64 };
enum class Reduction : std::uint8_t { sum, maximum, minimum, average };

/// The size in bytes.
constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::byte:
      return 1;
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::float32:
    case DataType::int32:
      return 4;
    default:
      return 8;
  }
}

constexpr bool is_floating(DataType type) {
  return type != DataType::byte && type != DataType::int32 && type != DataType::int64;
}

/// The code in checkpoints, such as "f32" or "u8".
std::string_view code_of(DataType type);
/// Throws ConfigError for an unknown code.
DataType data_type_from_code(std::string_view code);
/// The value of one element in memory, aligned or not. It is exact except for large int64 values.
double value_of(DataType type, const std::byte* at);

}  // namespace distdl::tensor
