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
  std::int64_t before = 0;  ///< rows before a slice
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const float* position = weight + (before + row) % places * width;
    lanes.each(width, [&](std::int64_t j) { y[row * width + j] = x[row * width + j] + position[j]; });
  }
};

/// The gradient of a weight of positions, (T, C), for a slice of the rows of (N, T, C).
template <class T>
struct SumOfSlice {
  const T* dy;
  float* sums;
  std::int64_t rows;  ///< number of rows in the slice
  std::int64_t places;
  std::int64_t width;
  std::int64_t before;  ///< rows before it
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const auto at = static_cast<std::int64_t>(i);
    double sum = 0;
    for (std::int64_t row = (at / width - before % places + places) % places; row < rows; row += places)
      sum += dy[row * width + at % width];
    sums[i] = static_cast<float>(sum);
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

/// Where JoinContext puts the rows of its input, (N, T, row).
struct Joined {
  std::int64_t places;   ///< T
  std::int64_t row;      ///< numbers of a row of the input
  std::int64_t queries;  ///< numbers of queries, which come first in a row
  std::int64_t before;   ///< places before the chunk
  DISTDL_HOST_DEVICE constexpr std::int64_t query(std::int64_t at) const { return sample(at) + at % places * queries; }
  DISTDL_HOST_DEVICE constexpr std::int64_t keys(std::int64_t at) const {
    return sample(at) + places * queries + (before + at % places) * (row - queries);
  }

 private:
  DISTDL_HOST_DEVICE constexpr std::int64_t sample(std::int64_t at) const {
    return at / places * (places * queries + (before + places) * (row - queries));
  }
};

/// x: (N, T, row). A row is one of x.
template <class T>
struct JoinRows {
  Joined of;
  const T* x;
  T* y;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    copy_row(lanes, of.queries, x + row * of.row, y + of.query(row));
    copy_row(lanes, of.row - of.queries, x + row * of.row + of.queries, y + of.keys(row));
  }
};

/// The gradient of JoinRows. A row is one of dx.
template <class T>
struct JoinRowsGradient {
  Joined of;
  const T* dy;
  T* dx;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    copy_row(lanes, of.queries, dy + of.query(row), dx + row * of.row);
    copy_row(lanes, of.row - of.queries, dy + of.keys(row), dx + row * of.row + of.queries);
  }
};

}  // namespace distdl::kernels::cuda
