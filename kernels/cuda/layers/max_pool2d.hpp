// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/layers/pool_windows.hpp>

namespace distdl::kernels::cuda {

/// Index in x of the first largest value of a window, where a window is an element of the output. A NaN counts as the
/// largest value.
template <class T>
DISTDL_HOST_DEVICE std::int64_t largest_of(const PoolWindows& windows, const T* x, const PoolWindows::Place& window) {
  std::int64_t best = -1;
  for (std::int64_t h = windows.begin(window.row); h < windows.end(window.row, windows.in_height); ++h)
    for (std::int64_t w = windows.begin(window.column); w < windows.end(window.column, windows.in_width); ++w) {
      const std::int64_t at = windows.input({window.plane, h, w, window.channel});
      if (best < 0 || x[at] > x[best] || (x[at] != x[at] && x[best] == x[best])) best = at;
    }
  return best;
}

template <class T>
struct MaxPoolForward {
  const T* x;
  T* y;
  PoolWindows windows;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    y[i] = x[largest_of(windows, x, windows.in_output(static_cast<std::int64_t>(i)))];
  }
};

/// Each element of dx sums the gradients of the windows that chose it, in the order of the windows. It uses no atomics,
/// so the bits equal those of plain loops over the windows.
template <class T>
struct MaxPoolBackward {
  const T* x;
  const T* dy;
  T* dx;
  PoolWindows windows;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    const auto [plane, h, w, channel] = windows.in_input(at);
    const std::int64_t last_row = windows.last_window(h, windows.out_height);
    const std::int64_t last_column = windows.last_window(w, windows.out_width);
    float sum = 0;
    for (std::int64_t row = windows.first_window(h); row <= last_row; ++row)
      for (std::int64_t column = windows.first_window(w); column <= last_column; ++column) {
        const PoolWindows::Place window{plane, row, column, channel};
        if (largest_of(windows, x, window) == at) sum += dy[windows.output(window)];
      }
    dx[i] = sum;
  }
};

}  // namespace distdl::kernels::cuda
