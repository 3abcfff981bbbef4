// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/layers/pool_windows.hpp>
#include <distdl/kernels/cuda/primitives/lanes.hpp>

namespace distdl::kernels::cuda {

/// Averages windows without padding. Each has kernel * kernel values.
template <class T>
struct AveragePoolForward {
  const T* x;
  T* y;
  PoolWindows windows;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const auto [plane, row, column, channel] = windows.in_output(static_cast<std::int64_t>(i));
    float sum = 0;
    for (std::int64_t h = windows.begin(row); h < windows.end(row, windows.in_height); ++h)
      for (std::int64_t w = windows.begin(column); w < windows.end(column, windows.in_width); ++w)
        sum += x[windows.input({plane, h, w, channel})];
    y[i] = sum / static_cast<float>(windows.kernel * windows.kernel);
  }
};

/// Each element of dx sums the gradients of the windows that contain it, in the order of the windows.
template <class T>
struct AveragePoolBackward {
  const T* dy;
  T* dx;
  PoolWindows windows;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const auto [plane, h, w, channel] = windows.in_input(static_cast<std::int64_t>(i));
    const std::int64_t last_row = windows.last_window(h, windows.out_height);
    const std::int64_t last_column = windows.last_window(w, windows.out_width);
    float sum = 0;
    for (std::int64_t row = windows.first_window(h); row <= last_row; ++row)
      for (std::int64_t column = windows.first_window(w); column <= last_column; ++column)
        sum += dy[windows.output({plane, row, column, channel})];
    dx[i] = sum / static_cast<float>(windows.kernel * windows.kernel);
  }
};

/// A row is a whole plane.
template <class T>
struct PlaneMean {
  const T* x;
  T* y;
  std::int64_t pixels;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t plane, const Lanes& lanes) const {
    const float sum = sum_over(lanes, pixels, [&](std::int64_t j) -> float { return x[plane * pixels + j]; });
    lanes.once([&] { y[plane] = sum / static_cast<float>(pixels); });
  }
};

template <class T>
struct PlaneMeanGradient {
  const T* dy;
  T* dx;
  std::int64_t pixels;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t plane, const Lanes& lanes) const {
    const float share = dy[plane] / static_cast<float>(pixels);
    lanes.each(pixels, [&](std::int64_t j) { dx[plane * pixels + j] = share; });
  }
};

/// The mean over places for channels that are adjacent: element i of (N, C) and of (N, pixels, C).
template <class T>
struct PixelMean {
  const T* x;
  T* y;
  std::int64_t pixels;
  std::int64_t channels;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    const T* from = x + at / channels * pixels * channels + at % channels;
    float sum = 0;
    for (std::int64_t j = 0; j < pixels; ++j) sum += from[j * channels];
    y[i] = sum / static_cast<float>(pixels);
  }
};

template <class T>
struct PixelMeanGradient {
  const T* dy;
  T* dx;
  std::int64_t pixels;
  std::int64_t channels;
  DISTDL_HOST_DEVICE T* target() const { return dx; }
  DISTDL_HOST_DEVICE float value(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    return dy[at / channels / pixels * channels + at % channels] / static_cast<float>(pixels);
  }
};

}  // namespace distdl::kernels::cuda
