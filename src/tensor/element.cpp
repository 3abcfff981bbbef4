// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/tensor/element.hpp>
#include <distdl/tensor/element_maths.hpp>

namespace distdl::tensor {
namespace {
/// In the order of DataType.
constexpr std::array<std::string_view, 12> kCodes{"u8",  "f32", "f64", "f16",  "bf16", "i32",
                                                  "i64", "i8",  "i16", "bool", "c64",  "c128"};

struct HostProcessor;
using Maths = ElementMaths<HostProcessor>;

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
}  // namespace

std::string_view code_of(DataType type) {
  return kCodes.at(static_cast<std::size_t>(type));
}

DataType data_type_from_code(std::string_view code) {
  const auto* const found = std::find(kCodes.begin(), kCodes.end(), code);
  require(found != kCodes.end(), "\"{}\" is not a data type; it must be one of {}", code, fmt::join(kCodes, ", "));
  return static_cast<DataType>(std::distance(kCodes.begin(), found));
}

double value_of(DataType type, const std::byte* at) {
  switch (type) {
    case DataType::float32:
      return load<float>(at);
    case DataType::float64:
      return load<double>(at);
    case DataType::float16:
      return Maths::Float16::widen(load<std::uint16_t>(at));
    case DataType::bfloat16:
      return Maths::Bfloat16::widen(load<std::uint16_t>(at));
    case DataType::int32:
      return load<std::int32_t>(at);
    case DataType::int64:
      return static_cast<double>(load<std::int64_t>(at));
    case DataType::byte:
    case DataType::boolean:
      return load<std::uint8_t>(at);
    case DataType::int8:
      return load<std::int8_t>(at);
    case DataType::int16:
      return load<std::int16_t>(at);
    case DataType::complex64:
      return load<float>(at);
    case DataType::complex128:
      return load<double>(at);
  }
  return 0;
}

}  // namespace distdl::tensor
