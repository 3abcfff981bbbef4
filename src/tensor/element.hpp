// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace distdl::tensor {

/// Of the elements of tensors. Ranks exchange all of these and reduce all but byte, which is an unsigned integer.
enum class DataType : std::uint8_t { byte, float32, float64, float16, bfloat16, int32, int64 };
enum class Reduction : std::uint8_t { sum, maximum, minimum, average };

/// In bytes.
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

/// "f32", "u8": as checkpoints store it.
std::string_view code_of(DataType type);
/// Throws ConfigError for an unknown code.
DataType data_type_from_code(std::string_view code);
/// One element as it lies in memory, aligned or not. Exact, but for large int64.
double value_of(DataType type, const std::byte* at);

}  // namespace distdl::tensor
