// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace distdl::tensor {

/// Of elements that ranks exchange (all) and reduce (all but byte).
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

}  // namespace distdl::tensor
