// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <distdl/data/transforms/pixel_operations.hpp>

namespace distdl::data {

inline constexpr std::int64_t kMagnitudes = 31;  ///< magnitudes are 0 .. 30

/// An operation of RandAugment.
struct RandomOperation {
  std::string_view name;  ///< torchvision's
  /// For a magnitude, and an image of this extent in the direction of the operation.
  double (*strength)(std::int64_t magnitude, std::int64_t extent);
  bool is_signed;  ///< every other strength is negative
  void (*apply)(const Pixels& image, double strength);
};

/// All of them, in torchvision's order.
std::span<const RandomOperation> random_operations();

}  // namespace distdl::data
