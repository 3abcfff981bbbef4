// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <distdl/tensor/element.hpp>

namespace distdl::train {

/// By what the loss is multiplied before the backward pass, so that small gradients are no zeros in float16; the
/// optimizer takes it away again. It is halved where a gradient has overflowed, which then is not applied, and doubled
/// after many that have not. 1 for ever with other types. Micikevicius et al., "Mixed precision training", 2018.
struct LossScale {
  static constexpr std::int64_t kStart = 16, kSmallest = -14, kLargest = 24;  ///< exponents
  static constexpr std::int64_t kPatience = 2000;                             ///< good steps before it is doubled

  std::int64_t exponent = 0;    ///< of 2
  std::int64_t good_steps = 0;  ///< since that has changed

  static LossScale start(tensor::DataType activations) {
    return {activations == tensor::DataType::float16 ? kStart : 0, 0};
  }
  double value() const { return std::ldexp(1.0, static_cast<int>(exponent)); }
  /// After a step whose gradients were finite, or not. Throws ConfigError where nothing is left to be halved.
  void step_done(bool finite);
};

}  // namespace distdl::train
