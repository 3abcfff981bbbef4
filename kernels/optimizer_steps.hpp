// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <variant>

namespace distdl::kernels {

/// Options of a parameter group.
struct GroupOptions {
  bool decays = true;   ///< its weights decay
  bool adapts = false;  ///< LARS and LAMB: its rate has a trust ratio
  bool operator==(const GroupOptions&) const = default;
};

/// A part of an arena, in elements.
struct ArenaRange {
  std::size_t offset = 0, count = 0;
  GroupOptions options = {};
  bool operator==(const ArenaRange&) const = default;
};

/// The arrays that Backend::update() reads and writes, in the backend's memory. They do not overlap.
struct UpdateArenas {
  float* parameters = nullptr;
  std::array<float*, 2> moments{};  ///< as many as the step needs
  const float* gradients = nullptr;
};

// The steps of the optimizers: the numbers of a step and its arithmetic. There is one definition for all backends, and
// each backend applies it to arena ranges. The numbers are in the backend's memory, so that a recorded update (see
// Replay) sees each change. A step has
//   kMoments, the number of its moments;
//   operator()(parameter, moments..., gradient), the update of one element;
//   if its rate has trust ratios (Adaptive): term(parameter, moments..., gradient), called once for each element before
//   the updates, and trusted_rate(), the rate of a tensor that adapts, from sums of squared parameters and of terms.
//   known_term() is the same after term(), as often as wanted.
// In the formulas p is a parameter, and g = gradient_scale * its gradient. As in functors.hpp, the functions are
// constexpr, and they are templates if they call functions that C++20 does not make constexpr.

/// Stochastic gradient descent, as PyTorch defines it:
/// g += weight_decay * p; m = momentum * m + g; p -= learning_rate * (nesterov ? g + momentum * m : m).
struct SgdStep {
  static constexpr std::size_t kMoments = 1;
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
  float gradient_scale = 1;
  bool operator==(const SgdStep&) const = default;

  constexpr void operator()(float& parameter, float& velocity, float gradient) const {
    float g = gradient_scale * gradient + weight_decay * parameter;
    velocity = momentum * velocity + g;
    float direction = nesterov ? g + momentum * velocity : velocity;
    parameter -= learning_rate * direction;
  }
};

/// LARS, You et al., "Large Batch Training of Convolutional Networks", 2017, algorithm 1: v = momentum * v +
/// learning_rate * (g + weight_decay * p); p -= v. A tensor that adapts uses the rate learning_rate * trust_coefficient
/// * |p| / (|g| + weight_decay * |p|), unless a norm is 0.
struct LarsStep {
  static constexpr std::size_t kMoments = 1;
  double learning_rate = 0;
  float momentum = 0;
  double weight_decay = 0;
  float gradient_scale = 1;
  double trust_coefficient = 1;
  bool operator==(const LarsStep&) const = default;

  static constexpr double term(float /*parameter*/, float /*velocity*/, float gradient) {
    return double{gradient} * double{gradient};
  }
  static constexpr double known_term(float parameter, float velocity, float gradient) {
    return term(parameter, velocity, gradient);
  }
  template <class T>
  constexpr T trusted_rate(T parameters, T gradients) const {
    const T p = std::sqrt(parameters), g = gradient_scale * std::sqrt(gradients);
    if (p == 0 || g == 0) return learning_rate;
    return learning_rate * (trust_coefficient * p / (g + weight_decay * p));
  }
  constexpr void operator()(float& parameter, float& velocity, float gradient) const {
    float g = gradient_scale * gradient + static_cast<float>(weight_decay) * parameter;
    velocity = momentum * velocity + static_cast<float>(learning_rate) * g;
    parameter -= velocity;
  }
};

/// The common part of AdamW and LAMB: the moments and the direction u. m = beta1 * m + rest1 * g; v = beta2 * v + rest2
/// * g^2; u = m * correction1 / (sqrt(v * correction2) + epsilon) + weight_decay * p; p -= learning_rate * u.
struct AdamStep {
  static constexpr std::size_t kMoments = 2;
  double learning_rate = 0;
  float beta1 = 0, rest1 = 1;  ///< rest1 = 1 - beta1
  float beta2 = 0, rest2 = 1;
  float correction1 = 1, correction2 = 1;  ///< at step t: 1 / (1 - beta^t)
  float epsilon = 0;
  float weight_decay = 0;
  float gradient_scale = 1;
  bool operator==(const AdamStep&) const = default;

  constexpr void update_moments(float& first, float& second, float gradient) const {
    float g = gradient_scale * gradient;
    first = beta1 * first + rest1 * g;
    second = beta2 * second + rest2 * (g * g);
  }
  template <class T>
  constexpr T direction(T parameter, T first, T second) const {
    return first * correction1 / (std::sqrt(second * correction2) + epsilon) + weight_decay * parameter;
  }
  template <class T>
  constexpr void descend(T& parameter, T first, T second) const {
    parameter -= static_cast<float>(learning_rate) * direction(parameter, first, second);
  }
};

/// Adam with decoupled weight decay: Kingma and Ba, 2015; Loshchilov and Hutter, "Decoupled Weight Decay
/// Regularization", 2019, algorithm 2, as implemented by PyTorch.
struct AdamWStep : AdamStep {
  template <class T>
  constexpr void operator()(T& parameter, T& first, T& second, T gradient) const {
    update_moments(first, second, gradient);
    descend(parameter, first, second);
  }
};

/// LAMB, You et al., "Large Batch Optimization for Deep Learning", 2019: a tensor that adapts uses the rate
/// learning_rate * |p| / |u|, unless a norm is 0. The terms are u^2. Computing them also updates the moments.
struct LambStep : AdamStep {
  template <class T>
  constexpr double term(T parameter, T& first, T& second, T gradient) const {
    update_moments(first, second, gradient);
    return known_term(parameter, first, second, gradient);
  }
  template <class T>
  constexpr double known_term(T parameter, T first, T second, T /*gradient*/) const {
    double u = direction(parameter, first, second);
    return u * u;
  }
  template <class T>
  constexpr T trusted_rate(T parameters, T directions) const {
    const T p = std::sqrt(parameters), u = std::sqrt(directions);
    return p == 0 || u == 0 ? learning_rate : learning_rate * (p / u);
  }
  template <class T>
  constexpr void operator()(T& parameter, T first, T second, T /*gradient*/) const {
    descend(parameter, first, second);
  }
};

/// The terms of an adaptive step alone, each taken once, without their sums: what LAMB does with its moments.
template <class Step>
struct TermsOf {
  static constexpr std::size_t kMoments = Step::kMoments;
  Step step;
  bool operator==(const TermsOf&) const = default;

  template <class... Element>
  constexpr void operator()(Element&... element) const {
    static_cast<void>(step.term(element...));
  }
};

/// An adaptive step after its terms, with the rate and the decay of one tensor.
template <class Step>
struct KnownRate {
  static constexpr std::size_t kMoments = Step::kMoments;
  Step step;
  bool operator==(const KnownRate&) const = default;

  template <class... Element>
  constexpr void operator()(Element&... element) const {
    step(element...);
  }
};

/// A running average of statistics or of parameters. The average is in the place of the parameters, and the observed
/// value in that of the gradients: value = (1 - weight) * value + weight * scale * observed.
struct AverageStep {
  static constexpr std::size_t kMoments = 0;
  float weight = 0;
  float scale = 1;
  bool operator==(const AverageStep&) const = default;

  constexpr void operator()(float& value, float observed) const {
    value = (1.0f - weight) * value + weight * scale * observed;
  }
};

/// The number types of all optimizers, in the backend's memory: see DeviceValue.
using OptimizerStep = std::variant<const SgdStep*, const LarsStep*, const AdamWStep*, const LambStep*,
                                   const AverageStep*, const TermsOf<LarsStep>*, const TermsOf<LambStep>*,
                                   const KnownRate<LarsStep>*, const KnownRate<LambStep>*>;
/// Those with trust ratios.
using AdaptiveStep = std::variant<const LarsStep*, const LambStep*>;

template <class Step>
concept Adaptive = requires(const Step& step) {
  step.trusted_rate(1.0, 1.0);
};

/// The step of a range before its trust ratio is applied.
template <class Step>
constexpr Step step_of_group(Step step, GroupOptions options) {
  if constexpr (requires { step.weight_decay; })
    if (!options.decays) step.weight_decay = 0;
  return step;
}

}  // namespace distdl::kernels
