// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include <distdl/optim/rule.hpp>

namespace distdl::optim {

/// What AdamW and LAMB hand to the backend.
inline kernels::AdamStep adam_step(const Options& options, const Rule::Now& now) {
  const auto correction = [&](double beta) {
    return static_cast<float>(1 / (1 - std::pow(beta, static_cast<double>(now.update))));
  };
  return {.learning_rate = now.rate,
          .beta1 = static_cast<float>(options.beta1),
          .rest1 = static_cast<float>(1 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .rest2 = static_cast<float>(1 - options.beta2),
          .correction1 = correction(options.beta1),
          .correction2 = correction(options.beta2),
          .epsilon = static_cast<float>(options.epsilon),
          .weight_decay = static_cast<float>(options.weight_decay),
          .gradient_scale = now.gradient_scale};
}

}  // namespace distdl::optim
