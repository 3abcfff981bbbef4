// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/lanes.hpp>
#include <distdl/kernels/elementwise/functors.hpp>

namespace distdl::kernels::cuda {

/// y = Function(x)
template <class Function>
struct Activate {
  const float* x;
  float* y;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const { y[i] = Function{}(x[i]); }
};

struct ReluInputGradient {
  const float* y;
  const float* dy;
  float* dx;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const { dx[i] = elementwise::ReluGradient{}(y[i], dy[i]); }
};

/// From x, for a Function that has a gradient(x, dy).
template <class Function>
struct ActivationGradient {
  const float* x;
  const float* dy;
  float* dx;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const { dx[i] = Function{}.gradient(x[i], dy[i]); }
};

/// Rows of x are a gate and a value, `width` numbers each.
struct GatedSiluForward {
  const float* x;
  float* y;
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const float* gate = x + row * 2 * width;
    lanes.each(width, [&](std::int64_t j) { y[row * width + j] = elementwise::Silu{}(gate[j]) * gate[width + j]; });
  }
};

struct GatedSiluGradient {
  const float* x;
  const float* dy;
  float* dx;
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const float* gate = x + row * 2 * width;
    float* to = dx + row * 2 * width;
    lanes.each(width, [&](std::int64_t j) {
      const float slope = dy[row * width + j];
      to[j] = elementwise::Silu{}.gradient(gate[j], slope * gate[width + j]);
      to[width + j] = slope * elementwise::Silu{}(gate[j]);
    });
  }
};

}  // namespace distdl::kernels::cuda
