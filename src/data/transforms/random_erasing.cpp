// SPDX-License-Identifier: Apache-2.0
// Zhong et al., "Random erasing data augmentation", 2017; areas and ratios as in torchvision.
#include <algorithm>
#include <cmath>

#include <distdl/data/transforms/transform.hpp>

namespace distdl::data {
namespace {
constexpr double kLeastArea = 0.02, kMostArea = 0.33, kLeastAspect = 0.3, kMostAspect = 3.3;
constexpr int kPlacesTried = 10;

void erase(const Options& options, Draws& draws, const Values& image) {
  if (draws.between(0, 1) >= options.random_erasing) return;
  const auto whole = static_cast<double>(image.height * image.width);
  for (int i = 0; i < kPlacesTried; ++i) {
    const double area = whole * draws.between(kLeastArea, kMostArea);
    const double aspect = std::exp(draws.between(std::log(kLeastAspect), std::log(kMostAspect)));
    const auto high = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area * aspect))),
               wide = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area / aspect)));
    if (high >= image.height || wide >= image.width) continue;
    const std::int64_t top = draws.below(image.height - high + 1), left = draws.below(image.width - wide + 1);
    for (std::int64_t row = 0; row < image.channels * high; ++row) {
      const std::int64_t channel = row / high, y = top + row % high;
      std::fill_n(image.floats + (channel * image.height + y) * image.width + left, wide, 0.0f);
    }
    return;
  }
}
}  // namespace

Transform random_erasing() {
  return {.name = "random erasing",
          .stream = 0x6572617365,
          .is_used = [](const Options& options) { return options.random_erasing > 0; },
          .values = &erase};
}

}  // namespace distdl::data
