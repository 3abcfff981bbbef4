// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/train/state/loss_scale.hpp>

namespace distdl::train {

void LossScale::step_done(bool finite) {
  if (!finite) {
    require(exponent > kSmallest,
            "gradients overflow float16 although the loss is scaled by {}; set kernels.precision = \"bf16\", or lower "
            "optim.learning_rate",
            value());
    *this = {exponent - 1, 0};
  } else if (++good_steps >= kPatience) {
    *this = {std::min(exponent + 1, kLargest), 0};
  }
}

}  // namespace distdl::train
