// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/property/oracle.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace distdl::comm::oracle {
namespace {

/// Of a binary floating-point format.
struct Format {
  int digits;  ///< of the significand, the hidden one among them
  int least;   ///< exponent of the smallest normal number
  double largest;
  int fraction() const { return digits - 1; }
};
constexpr Format kHalf{11, -14, 65504.0};
constexpr Format kBrain{8, -126, 0x1.FEp127};

double rounded(const Format& format, double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), format.least);
  const double quantum = std::ldexp(1.0, exponent - format.fraction());
  const double nearest = std::nearbyint(value / quantum) * quantum;
  return std::abs(nearest) > format.largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : nearest;
}

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  const double finite = exponent == 31 ? std::numeric_limits<double>::infinity() : magnitude;
  return bits & 0x8000 ? -finite : finite;
}

std::uint16_t half_bits(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  if (std::isinf(magnitude)) return sign | 0x7C00;
  if (magnitude < 0x1p-14) return sign | static_cast<std::uint16_t>(std::ldexp(magnitude, 24));
  const int exponent = std::ilogb(magnitude);
  const int fraction = static_cast<int>(std::ldexp(magnitude, 10 - exponent)) - 1024;
  return static_cast<std::uint16_t>(sign | (exponent + 15) << 10 | fraction);
}

template <class T>
T bits_at(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

template <class T>
void put(T value, std::byte* element) {
  std::memcpy(element, &value, sizeof value);
}

}  // namespace

double rounded(DataType type, double value) {
  if (type == DataType::float16) return rounded(kHalf, value);
  if (type == DataType::bfloat16) return rounded(kBrain, value);
  return type == DataType::float32 ? static_cast<float>(value) : value;
}

double read(DataType type, const std::byte* element) {
  switch (type) {
    case DataType::byte:
      return static_cast<double>(bits_at<std::uint8_t>(element));
    case DataType::float32:
      return bits_at<float>(element);
    case DataType::float64:
      return bits_at<double>(element);
    case DataType::float16:
      return half_value(bits_at<std::uint16_t>(element));
    case DataType::bfloat16:
      return std::bit_cast<float>(std::uint32_t{bits_at<std::uint16_t>(element)} << 16);
    case DataType::int32:
      return bits_at<std::int32_t>(element);
    default:
      break;
  }
  return static_cast<double>(bits_at<std::int64_t>(element));
}

void write(DataType type, double value, std::byte* element) {
  switch (type) {
    case DataType::byte:
      return put(static_cast<std::uint8_t>(value), element);
    case DataType::float32:
      return put(static_cast<float>(value), element);
    case DataType::float64:
      return put(value, element);
    case DataType::float16:
      return put(half_bits(value), element);
    case DataType::bfloat16:
      return put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16), element);
    case DataType::int32:
      return put(static_cast<std::int32_t>(value), element);
    default:
      return put(static_cast<std::int64_t>(value), element);
  }
}

std::vector<std::byte> encoded(DataType type, std::span<const double> values) {
  std::vector<std::byte> bytes(values.size() * size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) write(type, values[i], bytes.data() + i * size_of(type));
  return bytes;
}

double reduced(DataType type, Reduction reduction, double left, double right) {
  if (reduction == Reduction::maximum) return std::max(left, right);
  if (reduction == Reduction::minimum) return std::min(left, right);
  return rounded(type, left + right);
}

double averaged(DataType type, double sum, int terms) {
  const double scale = 1.0 / terms;
  const bool short_type = type == DataType::float16 || type == DataType::bfloat16;
  return rounded(type, short_type ? static_cast<float>(sum) * static_cast<float>(scale) : sum * scale);
}

double tree_value(DataType type, Reduction reduction, TreeNode node, int leaves,
                  const std::function<double(int)>& leaf) {
  if (node.level == 0) return leaf(node.index);
  const double left = tree_value(type, reduction, {node.level - 1, 2 * node.index}, leaves, leaf);
  const TreeNode right{node.level - 1, 2 * node.index + 1};
  if (leaves_of(right, leaves).count == 0) return left;
  return reduced(type, reduction, left, tree_value(type, reduction, right, leaves, leaf));
}

double tolerance(DataType type, double sum_of_magnitudes, int terms) {
  double epsilon = 0;  // integers are exact
  if (type == DataType::float16) epsilon = 0x1p-11;
  if (type == DataType::bfloat16) epsilon = 0x1p-8;
  if (type == DataType::float32) epsilon = 0x1p-24;
  if (type == DataType::float64) epsilon = 0x1p-53;
  return 1.01 * (terms + 1) * epsilon * sum_of_magnitudes;
}

}  // namespace distdl::comm::oracle
