// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include <distdl/kernels/optimizer_steps.hpp>

/// The optimizers' element-wise maths; see functors.hpp and optimizer_steps.hpp.
namespace distdl::kernels::elementwise {

/// The step of a range, still without its trust ratio.
template <class Step>
constexpr Step treated(Step step, GroupOptions options) {
  if (!options.decays) step.weight_decay = 0;
  return step;
}

// With it, from sums of squares. Templates, since C++20's sqrt is not constexpr.

template <class T>
constexpr LarsStep trusted(LarsStep step, T parameters, T gradients) {
  const T p = std::sqrt(parameters), g = step.gradient_scale * std::sqrt(gradients);
  if (p != 0 && g != 0) step.learning_rate *= step.trust_coefficient * p / (g + step.weight_decay * p);
  return step;
}

template <class T>
constexpr AdamStep trusted(AdamStep step, T parameters, T directions) {
  const T p = std::sqrt(parameters), u = std::sqrt(directions);
  if (p != 0 && u != 0) step.learning_rate *= p / u;
  return step;
}

struct SgdUpdate {
  SgdStep step;
  constexpr void operator()(float& parameter, float& momentum, float gradient) const {
    float g = step.gradient_scale * gradient + step.weight_decay * parameter;
    momentum = step.momentum * momentum + g;
    float direction = step.nesterov ? g + step.momentum * momentum : momentum;
    parameter -= step.learning_rate * direction;
  }
};

struct LarsUpdate {
  LarsStep step;
  constexpr void operator()(float& parameter, float& velocity, float gradient) const {
    float g = step.gradient_scale * gradient + static_cast<float>(step.weight_decay) * parameter;
    velocity = step.momentum * velocity + static_cast<float>(step.learning_rate) * g;
    parameter -= velocity;
  }
};

struct AdamMoments {
  AdamStep step;
  constexpr void operator()(float& first, float& second, float gradient) const {
    float g = step.gradient_scale * gradient;
    first = step.beta1 * first + step.rest1 * g;
    second = step.beta2 * second + step.rest2 * (g * g);
  }
};

struct AdamDirection {
  AdamStep step;
  template <class T>
  constexpr T operator()(T parameter, T first, T second) const {
    return first * step.correction1 / (std::sqrt(second * step.correction2) + step.epsilon) +
           step.weight_decay * parameter;
  }
};

struct AdamUpdate {
  AdamStep step;
  template <class T>
  constexpr void operator()(T& parameter, T& first, T& second, T gradient) const {
    AdamMoments{step}(first, second, gradient);
    parameter -= static_cast<float>(step.learning_rate) * AdamDirection{step}(parameter, first, second);
  }
};

/// The first half of LAMB: the moments, and a term of the direction's squared norm.
struct LambMoments {
  AdamStep step;
  template <class T>
  constexpr double operator()(T parameter, T& first, T& second, T gradient) const {
    AdamMoments{step}(first, second, gradient);
    double direction = AdamDirection{step}(parameter, first, second);
    return direction * direction;
  }
};

/// The second half, of a trusted() step.
struct LambUpdate {
  AdamStep step;
  template <class T>
  constexpr void operator()(T& parameter, T first, T second) const {
    parameter -= static_cast<float>(step.learning_rate) * AdamDirection{step}(parameter, first, second);
  }
};

struct RunningAverage {
  AverageStep step;
  constexpr float operator()(float value, float observed) const {
    return (1.0f - step.weight) * value + step.weight * step.scale * observed;
  }
};

struct Square {
  constexpr double operator()(float x) const { return double{x} * double{x}; }
};

}  // namespace distdl::kernels::elementwise
