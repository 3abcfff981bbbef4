// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/pool_windows.hpp>

namespace distdl::kernels::cuda {

/// Index in x of the first largest value of the window (row, column) of a plane; a NaN counts as largest.
DISTDL_HOST_DEVICE inline std::int64_t largest_of(const PoolWindows& windows, const float* x, std::int64_t plane,
                                                  std::int64_t row, std::int64_t column) {
  std::int64_t best = -1;
  for (std::int64_t h = windows.begin(row); h < windows.end(row, windows.in_height); ++h)
    for (std::int64_t w = windows.begin(column); w < windows.end(column, windows.in_width); ++w) {
      const std::int64_t at = (plane * windows.in_height + h) * windows.in_width + w;
      if (best < 0 || x[at] > x[best] || (x[at] != x[at] && x[best] == x[best])) best = at;
    }
  return best;
}

struct MaxPoolForward {
  const float* x;
  float* y;
  PoolWindows windows;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t column = at % windows.out_width, rest = at / windows.out_width;
    y[i] = x[largest_of(windows, x, rest / windows.out_height, rest % windows.out_height, column)];
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
        if (largest_of(windows, x, plane, row, column) == at)
          sum += dy[(plane * windows.out_height + row) * windows.out_width + column];
    dx[i] = sum;
  }
};

}  // namespace distdl::kernels::cuda
