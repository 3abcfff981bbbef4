// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace distdl::kernels {

/// Options of a parameter group.
struct GroupOptions {
  bool decays = true;   ///< its weights
  bool adapts = false;  ///< LARS and LAMB: its rate has a trust ratio of its own
  bool operator==(const GroupOptions&) const = default;
};

/// A part of an arena, in elements.
struct ArenaRange {
  std::size_t offset = 0, count = 0;
  GroupOptions options = {};
  bool operator==(const ArenaRange&) const = default;
};

// Arguments of the optimizers' element-wise updates: p is a parameter, g = gradient_scale * its gradient. They lie in
// the backend's memory, so that a recorded update (see Replay) sees each change.

/// Stochastic gradient descent, as PyTorch defines it:
/// g += weight_decay * p; m = momentum * m + g; p -= learning_rate * (nesterov ? g + momentum * m : m).
struct SgdStep {
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
  float gradient_scale = 1;
  bool operator==(const SgdStep&) const = default;
};

/// LARS, You et al., "Large Batch Training of Convolutional Networks", 2017, algorithm 1:
/// v = momentum * v + learning_rate * (g + weight_decay * p); p -= v.
/// A tensor that adapts has learning_rate * trust_coefficient * |p| / (|g| + weight_decay * |p|) instead, unless a norm
/// is 0.
struct LarsStep {
  double learning_rate = 0;
  float momentum = 0;
  double weight_decay = 0;
  float gradient_scale = 1;
  double trust_coefficient = 1;
  bool operator==(const LarsStep&) const = default;
};

/// Adam with decoupled weight decay: Kingma and Ba, 2015; Loshchilov and Hutter, "Decoupled Weight Decay
/// Regularization", 2019, algorithm 2, as PyTorch reads it:
/// m = beta1 * m + rest1 * g; v = beta2 * v + rest2 * g^2;
/// u = m * correction1 / (sqrt(v * correction2) + epsilon) + weight_decay * p; p -= learning_rate * u.
/// LAMB, You et al., "Large Batch Optimization for Deep Learning", 2019: a tensor that adapts has
/// learning_rate * |p| / |u| instead, unless a norm is 0.
struct AdamStep {
  double learning_rate = 0;
  float beta1 = 0, rest1 = 1;  ///< rest1 = 1 - beta1
  float beta2 = 0, rest2 = 1;
  float correction1 = 1, correction2 = 1;  ///< of step t: 1 / (1 - beta^t)
  float epsilon = 0;
  float weight_decay = 0;
  float gradient_scale = 1;
  bool operator==(const AdamStep&) const = default;
};

/// value = (1 - weight) * value + weight * scale * observed
struct AverageStep {
  float weight = 0;
  float scale = 1;
  bool operator==(const AverageStep&) const = default;
};

}  // namespace distdl::kernels
