// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/lanes.hpp>

// Layers that move rows of `width` numbers, (N, T, C) with C = width. Bodies of lanes.hpp; a row is a place of a sample
// unless it says otherwise.
namespace distdl::kernels::cuda {

template <class Lanes>
DISTDL_HOST_DEVICE void copy_row(const Lanes& lanes, std::int64_t width, const float* from, float* to) {
  lanes.each(width, [&](std::int64_t j) { to[j] = from[j]; });
}

struct AddPositions {
  const float* x;
  const float* weight;
  float* y;
  std::int64_t places;
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const float* position = weight + row % places * width;
    lanes.each(width, [&](std::int64_t j) { y[row * width + j] = x[row * width + j] + position[j]; });
  }
};

/// x: (N, T, C), y: (N, 1 + T, C). Rows of y.
struct PrependToken {
  const float* x;
  const float* weight;
  float* y;
  std::int64_t places;  ///< T
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t sample = row / (places + 1), place = row % (places + 1);
    const float* from = place == 0 ? weight : x + (sample * places + place - 1) * width;
    copy_row(lanes, width, from, y + row * width);
  }
};

/// The gradient of PrependToken. Rows of dx.
struct DropToken {
  const float* dy;
  float* dx;
  std::int64_t places;  ///< T
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    copy_row(lanes, width, dy + (row + row / places + 1) * width, dx + row * width);
  }
};

/// (N, rows, columns) to (N, columns, rows). A row is one of the output.
struct Transpose {
  const float* from;
  float* to;
  std::int64_t rows;
  std::int64_t columns;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const float* column = from + row / columns * rows * columns + row % columns;
    lanes.each(rows, [&](std::int64_t j) { to[row * rows + j] = column[j * columns]; });
  }
};

/// x: (N, T, C), y: (N, C). A row is a sample.
struct SelectRow {
  const float* x;
  float* y;
  std::int64_t place;
  std::int64_t places;  ///< T
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    copy_row(lanes, width, x + (row * places + place) * width, y + row * width);
  }
};

/// The gradient of SelectRow. Rows of dx.
struct SelectRowGradient {
  const float* dy;
  float* dx;
  std::int64_t place;
  std::int64_t places;  ///< T
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const bool is_selected = row % places == place;
    const float* from = dy + row / places * width;
    lanes.each(width, [&](std::int64_t j) { dx[row * width + j] = is_selected ? from[j] : 0.0f; });
  }
};

}  // namespace distdl::kernels::cuda
