// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>

#include <distdl/train/local_sgd/outer_rules.hpp>

namespace distdl::train {
namespace {
void step_to_mean(const parallel::LocalSgdOptions& /*options*/, std::span<float> parameters,
                  std::span<const float> mean, float* /*kept*/) {
  std::ranges::copy(mean, parameters.begin());
}

void step_with_momentum(const parallel::LocalSgdOptions& options, std::span<float> parameters,
                        std::span<const float> mean, float* velocity) {
  const auto rate = static_cast<float>(options.outer_learning_rate);
  const auto momentum = static_cast<float>(options.outer_momentum);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const float gradient = parameters[i] - mean[i];
    velocity[i] = momentum * velocity[i] + gradient;
    parameters[i] -= rate * (gradient + momentum * velocity[i]);
  }
}
}  // namespace

std::span<const OuterRule> outer_rules() {
  static const std::array all{OuterRule{.outer = parallel::Outer::mean, .step = step_to_mean},
                              OuterRule{.outer = parallel::Outer::nesterov,
                                        .step = step_with_momentum,
                                        .arena = "outer_momentum",
                                        .keys = {"parallel.outer_learning_rate", "parallel.outer_momentum"}}};
  return all;
}

const OuterRule& rule_of(parallel::Outer outer) {
  return *std::ranges::find(outer_rules(), outer, &OuterRule::outer);
}

}  // namespace distdl::train
