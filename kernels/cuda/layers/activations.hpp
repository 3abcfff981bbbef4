// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/primitives/lanes.hpp>
#include <distdl/kernels/elementwise/functors.hpp>

namespace distdl::kernels::cuda {

// T is the type of activations. The arithmetic is in float.

/// y = Function(x)
template <class Function, class T>
struct Activate {
  const T* x;
  T* y;
  DISTDL_HOST_DEVICE T* target() const { return y; }
  DISTDL_HOST_DEVICE float value(std::size_t i) const { return Function{}(static_cast<float>(x[i])); }
};

template <class T>
struct ReluInputGradient {
  const T* y;
  const T* dy;
  T* dx;
  DISTDL_HOST_DEVICE T* target() const { return dx; }
  DISTDL_HOST_DEVICE float value(std::size_t i) const { return elementwise::ReluGradient{}(y[i], dy[i]); }
};

/// The gradient from x, for a Function that has gradient(x, dy).
template <class Function, class T>
struct ActivationGradient {
  const T* x;
  const T* dy;
  T* dx;
  DISTDL_HOST_DEVICE T* target() const { return dx; }
  DISTDL_HOST_DEVICE float value(std::size_t i) const {
    return Function{}.gradient(static_cast<float>(x[i]), static_cast<float>(dy[i]));
  }
};

/// Rows of x are a gate and a value, with `width` numbers each.
template <class T>
struct GatedSiluForward {
  const T* x;
  T* y;
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const T* gate = x + row * 2 * width;
    lanes.each(width, [&](std::int64_t j) {
      y[row * width + j] = elementwise::Silu{}(static_cast<float>(gate[j])) * gate[width + j];
    });
  }
};

template <class T>
struct GatedSiluGradient {
  const T* x;
  const T* dy;
  T* dx;
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const T* gate = x + row * 2 * width;
    T* to = dx + row * 2 * width;
    lanes.each(width, [&](std::int64_t j) {
      const float slope = dy[row * width + j], opening = gate[j], value = gate[width + j];
      to[j] = elementwise::Silu{}.gradient(opening, slope * value);
      to[width + j] = slope * elementwise::Silu{}(opening);
    });
  }
};

}  // namespace distdl::kernels::cuda
