// SPDX-License-Identifier: Apache-2.0
// Szegedy et al., "Going deeper with convolutions", 2015, 6; numbers and rounding as in torchvision.
#include <algorithm>
#include <cmath>

#include <distdl/data/transforms/transform.hpp>

namespace distdl::data {
namespace {
constexpr double kLeastRatio = 3.0 / 4.0, kMostRatio = 4.0 / 3.0;
constexpr int kTries = 10;

std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));
}
}  // namespace

Frame random_crop(Draws& draws, double least_area, std::int64_t width, std::int64_t height, std::int64_t size) {
  const auto whole_width = static_cast<double>(width), whole_height = static_cast<double>(height);
  const auto crop = [size](std::int64_t left, std::int64_t top, std::int64_t wide, std::int64_t high) {
    return Frame{static_cast<double>(left),
                 static_cast<double>(top),
                 static_cast<double>(wide),
                 static_cast<double>(high),
                 size,
                 size};
  };
  for (int i = 0; i < kTries; ++i) {
    const double area = whole_width * whole_height * draws.between(least_area, 1.0);
    const double ratio = std::exp(draws.between(std::log(kLeastRatio), std::log(kMostRatio)));
    const std::int64_t wide = rounded(std::sqrt(area * ratio)), high = rounded(std::sqrt(area / ratio));
    if (wide < 1 || wide > width || high < 1 || high > height) continue;
    const std::int64_t top = draws.below(height - high + 1), left = draws.below(width - wide + 1);
    return crop(left, top, wide, high);
  }
  std::int64_t wide = width, high = height;
  if (whole_width / whole_height < kLeastRatio) high = std::max<std::int64_t>(1, rounded(whole_width / kLeastRatio));
  if (whole_width / whole_height > kMostRatio) wide = std::max<std::int64_t>(1, rounded(whole_height * kMostRatio));
  return crop((width - wide) / 2, (height - high) / 2, wide, high);
}

Transform random_resized_crop() {
  return {.name = "random resized crop",
          .stream = 0x72657369,
          .is_used = [](const Options& options) { return options.crop_area > 0; },
          .frame = [](const Options& options, Draws& draws, std::int64_t width, std::int64_t height, std::int64_t size,
                      Frame& frame) { frame = random_crop(draws, options.crop_area, width, height, size); }};
}

}  // namespace distdl::data
