// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl::kernels {

/// One step of stochastic gradient descent, as PyTorch defines it:
/// g += weight_decay * p; m = momentum * m + g; p -= learning_rate * (nesterov ? g + momentum * m : m).
struct SgdStep {
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
};

}  // namespace distdl::kernels
