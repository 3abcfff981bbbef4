// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/primitives/lanes.hpp>

// Layers that move rows of `width` numbers, (N, T, C) with C = width. These are bodies for lanes.hpp. A row is a
// position of a sample unless stated otherwise.
namespace distdl::kernels::cuda {

template <class Lanes, class From, class To>
DISTDL_HOST_DEVICE void copy_row(const Lanes& lanes, std::int64_t width, const From* from, To* to) {
  lanes.each(width, [&](std::int64_t j) { to[j] = from[j]; });
}

template <class T>
struct AddPositions {
  const T* x;
  const float* weight;
  T* y;
  std::int64_t places;
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const float* position = weight + row % places * width;
    lanes.each(width, [&](std::int64_t j) { y[row * width + j] = x[row * width + j] + position[j]; });
  }
};

/// x: (N, T, C), y: (N, 1 + T, C). A row is one of y.
template <class T>
struct PrependToken {
  const T* x;
  const float* weight;
  T* y;
  std::int64_t places;  ///< T
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t sample = row / (places + 1), place = row % (places + 1);
    if (place == 0) return copy_row(lanes, width, weight, y + row * width);
    copy_row(lanes, width, x + (sample * places + place - 1) * width, y + row * width);
  }
};

/// The gradient of PrependToken. A row is one of dx.
template <class T>
struct DropToken {
  const T* dy;
  T* dx;
  std::int64_t places;  ///< T
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    copy_row(lanes, width, dy + (row + row / places + 1) * width, dx + row * width);
  }
};

/// x: (N, T, C), y: (N, C). A row is a sample.
template <class T>
struct SelectRow {
  const T* x;
  T* y;
  std::int64_t place;
  std::int64_t places;  ///< T
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    copy_row(lanes, width, x + (row * places + place) * width, y + row * width);
  }
};

/// The gradient of SelectRow. A row is one of dx.
template <class T>
struct SelectRowGradient {
  const T* dy;
  T* dx;
  std::int64_t place;
  std::int64_t places;  ///< T
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const bool is_selected = row % places == place;
    const T* from = dy + row / places * width;
    lanes.each(width, [&](std::int64_t j) { dx[row * width + j] = is_selected ? static_cast<float>(from[j]) : 0.0f; });
  }
};

}  // namespace distdl::kernels::cuda
