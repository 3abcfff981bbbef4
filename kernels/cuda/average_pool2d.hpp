// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/lanes.hpp>
#include <distdl/kernels/cuda/pool_windows.hpp>

namespace distdl::kernels::cuda {

/// Of windows without padding: each has kernel * kernel values.
struct AveragePoolForward {
  const float* x;
  float* y;
  PoolWindows windows;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t column = at % windows.out_width, row = at / windows.out_width % windows.out_height;
    const std::int64_t plane = at / windows.out_width / windows.out_height;
    float sum = 0;
    for (std::int64_t h = windows.begin(row); h < windows.end(row, windows.in_height); ++h)
      for (std::int64_t w = windows.begin(column); w < windows.end(column, windows.in_width); ++w)
        sum += x[(plane * windows.in_height + h) * windows.in_width + w];
    y[i] = sum / static_cast<float>(windows.kernel * windows.kernel);
  }
};

/// Each element of dx collects from the windows that contain it, in the order of the windows.
struct AveragePoolBackward {
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
        sum += dy[(plane * windows.out_height + row) * windows.out_width + column];
    dx[i] = sum / static_cast<float>(windows.kernel * windows.kernel);
  }
};

/// A row is a whole plane.
struct PlaneMean {
  const float* x;
  float* y;
  std::int64_t pixels;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t plane, const Lanes& lanes) const {
    const float sum = sum_over(lanes, pixels, [&](std::int64_t j) { return x[plane * pixels + j]; });
    lanes.once([&] { y[plane] = sum / static_cast<float>(pixels); });
  }
};

struct PlaneMeanGradient {
  const float* dy;
  float* dx;
  std::int64_t pixels;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t plane, const Lanes& lanes) const {
    const float share = dy[plane] / static_cast<float>(pixels);
    lanes.each(pixels, [&](std::int64_t j) { dx[plane * pixels + j] = share; });
  }
};

}  // namespace distdl::kernels::cuda
