// SPDX-License-Identifier: Apache-2.0
// Zhang et al., "mixup: Beyond empirical risk minimization", 2017.
#include <distdl/data/transforms/mix.hpp>

namespace distdl::data {

Mix mixup() {
  return {.name = "mixup",
          .stream = 0x6d69787570,
          .alpha = [](const Options& options) { return options.mixup; },
          .plan = [](Draws&, double share, const tensor::Shape&) { return Mix::Plan{static_cast<float>(share)}; },
          .apply =
              [](const Mix::Plan& plan, const tensor::Shape& image, float* values, const float* other) {
                const std::int64_t count = tensor::element_count(image);
                for (std::int64_t i = 0; i < count; ++i)
                  values[i] = other[i] * (1 - plan.share) + values[i] * plan.share;
              }};
}

}  // namespace distdl::data
