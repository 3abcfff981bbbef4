// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace distdl::comm {

/// What collectives move (all) and reduce (all but byte).
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

/// "float32", "sum": as tools and errors name them.
std::string_view name_of(DataType type);
std::string_view name_of(Reduction reduction);
/// Throws ConfigError naming the possible ones.
DataType data_type_of(std::string_view name);
Reduction reduction_of(std::string_view name);
/// Throws ConfigError for pairs without meaning: an average of integers, any reduction of bytes.
void check_reduction(DataType type, Reduction reduction);

}  // namespace distdl::comm
