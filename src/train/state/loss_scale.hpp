// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <distdl/tensor/element.hpp>

namespace distdl::train {

/// The factor on the loss in the backward pass, which prevents underflow of small float16 gradients. The optimizer
/// divides by it. After an overflow the factor is halved and the gradients are not applied; after many good steps it is
/// doubled. It is always 1 for other types. Micikevicius et al., "Mixed precision training", 2018.
struct LossScale {
  static constexpr std::int64_t kStart = 16, kSmallest = -14, kLargest = 24;  ///< exponents
  static constexpr std::int64_t kPatience = 2000;  ///< good steps before the factor is doubled

  std::int64_t exponent = 0;    ///< the factor is 2 to this power
  std::int64_t good_steps = 0;  ///< good steps since the exponent changed

  static LossScale start(tensor::DataType activations) {
    return {activations == tensor::DataType::float16 ? kStart : 0, 0};
  }
  double value() const { return std::ldexp(1.0, static_cast<int>(exponent)); }
  /// Adjusts the factor after a step. Throws ConfigError if it cannot be halved further.
  void step_done(bool finite);
};

}  // namespace distdl::train
