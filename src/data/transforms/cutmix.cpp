// SPDX-License-Identifier: Apache-2.0
// Yun et al., "CutMix: Regularization strategy to train strong classifiers with localizable features", 2019; the
// rectangle as in torchvision.
#include <algorithm>
#include <cmath>

#include <distdl/data/transforms/mix.hpp>

namespace distdl::data {

Mix cutmix() {
  return {.name = "cutmix",
          .stream = 0x6375746d6978,
          .alpha = [](const Options& options) { return options.cutmix; },
          .plan =
              [](Draws& draws, double share, const tensor::Shape& image) {
                const std::int64_t height = image[1], width = image[2];
                const std::int64_t x = draws.below(width), y = draws.below(height);
                const double half = 0.5 * std::sqrt(1 - share);
                const auto half_width = static_cast<std::int64_t>(half * static_cast<double>(width)),
                           half_height = static_cast<std::int64_t>(half * static_cast<double>(height));
                Mix::Plan plan;
                plan.left = std::max<std::int64_t>(x - half_width, 0);
                plan.top = std::max<std::int64_t>(y - half_height, 0);
                plan.wide = std::min(x + half_width, width) - plan.left;
                plan.high = std::min(y + half_height, height) - plan.top;
                plan.share = static_cast<float>(1 - static_cast<double>(plan.wide * plan.high) /
                                                        static_cast<double>(width * height));
                return plan;
              },
          .apply =
              [](const Mix::Plan& plan, const tensor::Shape& image, float* values, const float* other) {
                for (std::int64_t row = 0; row < image[0] * plan.high; ++row) {
                  const std::int64_t channel = row / plan.high, y = plan.top + row % plan.high;
                  const std::int64_t at = (channel * image[1] + y) * image[2] + plan.left;
                  std::copy_n(other + at, plan.wide, values + at);
                }
              }};
}

}  // namespace distdl::data
