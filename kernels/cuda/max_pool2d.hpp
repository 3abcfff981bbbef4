// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/host_device.hpp>

namespace distdl::kernels::cuda {

/// Planes of in_height x in_width and the windows over them; there are as many planes as samples times channels.
struct PoolWindows {
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t in_height;
  std::int64_t in_width;
  std::int64_t out_height;
  std::int64_t out_width;

  /// Index in x of the first largest value of the window (row, column) of a plane; a NaN counts as largest.
  DISTDL_HOST_DEVICE std::int64_t largest(const float* x, std::int64_t plane, std::int64_t row,
                                          std::int64_t column) const {
    const std::int64_t corner = (plane * in_height + row * stride) * in_width + column * stride;
    std::int64_t best = corner;
    for (std::int64_t h = 0; h < kernel; ++h)
      for (std::int64_t w = 0; w < kernel; ++w) {
        const std::int64_t at = corner + h * in_width + w;
        const bool is_first_nan = x[at] != x[at] && x[best] == x[best];
        if (x[at] > x[best] || is_first_nan) best = at;
      }
    return best;
  }

  /// The first of the windows along one direction that contain position `at`; may lie beyond last_window.
  DISTDL_HOST_DEVICE std::int64_t first_window(std::int64_t at) const {
    return at < kernel ? 0 : (at - kernel) / stride + 1;
  }
  DISTDL_HOST_DEVICE std::int64_t last_window(std::int64_t at, std::int64_t windows) const {
    const std::int64_t last = at / stride;
    return last < windows ? last : windows - 1;
  }
};

struct MaxPoolForward {
  const float* x;
  float* y;
  PoolWindows windows;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t column = at % windows.out_width, rest = at / windows.out_width;
    y[i] = x[windows.largest(x, rest / windows.out_height, rest % windows.out_height, column)];
  }
};

/// Each element of dx collects from the windows that chose it, in the order of the windows: no atomics, the same bits
/// as plain loops over the windows.
struct MaxPoolBackward {
  const float* x;
  const float* dy;
  float* dx;
  PoolWindows windows;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t w = at % windows.in_width, h = at / windows.in_width % windows.in_height;
    const std::int64_t plane = at / windows.in_width / windows.in_height;
    const std::int64_t last_row = windows.last_window(h, windows.out_height);
    const std::int64_t last_column = windows.last_window(w, windows.out_width);
    float sum = 0;
    for (std::int64_t row = windows.first_window(h); row <= last_row; ++row)
      for (std::int64_t column = windows.first_window(w); column <= last_column; ++column)
        if (windows.largest(x, plane, row, column) == at)
          sum += dy[(plane * windows.out_height + row) * windows.out_width + column];
    dx[i] = sum;
  }
};

}  // namespace distdl::kernels::cuda
