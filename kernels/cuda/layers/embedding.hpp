// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <distdl/kernels/cuda/layers/number_check.hpp>
#include <distdl/kernels/cuda/primitives/lanes.hpp>

namespace distdl::kernels::cuda {

/// y[position] = table[number of the position], or NaN if there is no such row, or 0 if another slice of the table has
/// it. A row is a position.
template <class T>
struct LookUp {
  Numbers numbers;
  const float* table;
  T* y;
  std::int64_t width;
  std::int64_t first = 0, end = std::numeric_limits<std::int64_t>::max();  ///< numbers whose rows the table has
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int32_t number = numbers.data[row];
    const bool is_valid = numbers.is_valid(number), is_here = is_valid && first <= number && number < end;
    const float* from = is_here ? table + (number - first) * width : nullptr;
    const float other = is_valid ? 0 : std::numeric_limits<float>::quiet_NaN();
    lanes.each(width, [&](std::int64_t j) { y[row * width + j] = from != nullptr ? from[j] : other; });
  }
};

/// 0, 1, 2, ...
struct Count {
  std::int32_t* to;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const { to[i] = static_cast<std::int32_t>(i); }
};

/// The start of each number below the limit, and of the limit itself, in the sorted numbers: starts[number - first].
struct FindStarts {
  Numbers sorted;
  std::int32_t* starts;
  std::int64_t first = 0;
  DISTDL_HOST_DEVICE void operator()(std::size_t number) const {
    std::int64_t low = 0, high = sorted.count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (sorted.data[middle] < first + static_cast<std::int64_t>(number))
        low = middle + 1;
      else
        high = middle;
    }
    starts[number] = static_cast<std::int32_t>(low);
  }
};

/// Adds dy of all positions with a number, in the order of the positions and without atomics, to a row of the table's
/// gradient. A row is a row of the table.
template <class T>
struct CollectGradient {
  const std::int32_t* places;  ///< positions sorted by their numbers; those with one number are in order
  const std::int32_t* starts;
  const T* dy;
  float* gradient;
  std::int64_t width;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int32_t begin = starts[row], end = starts[row + 1];
    lanes.each(width, [&](std::int64_t j) {
      double sum = 0;
      for (std::int32_t i = begin; i < end; ++i) sum += dy[places[i] * width + j];
      gradient[row * width + j] = static_cast<float>(sum);
    });
  }
};

}  // namespace distdl::kernels::cuda
