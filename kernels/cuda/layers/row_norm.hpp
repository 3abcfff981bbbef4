// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include <distdl/kernels/cuda/primitives/columns.hpp>
#include <distdl/kernels/cuda/primitives/lanes.hpp>

namespace distdl::kernels::cuda {

/// Rows that are normalized: z = (x - mean) * inverse, y = z * weight + bias.
struct RowNorm {
  std::int64_t width;
  float epsilon;
  bool is_centred;  ///< if false, the mean is taken as 0
};

/// Values of each row. `inverse` is 1 / its deviation, or 1 / its root mean square.
struct RowMoments {
  float* mean;
  float* inverse;
};

template <class T>
struct RowNormForward {
  RowNorm norm;
  const T* x;
  const float* weight;
  const float* bias;  ///< nullptr: none
  T* y;
  RowMoments moments;  ///< stored for backward, unless nullptr
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const T* from = x + row * norm.width;
    T* to = y + row * norm.width;
    const auto width = static_cast<float>(norm.width);
    float mean = 0;
    if (norm.is_centred) mean = sum_over(lanes, norm.width, [&](std::int64_t j) -> float { return from[j]; }) / width;
    const float squares =
        sum_over(lanes, norm.width, [&](std::int64_t j) { return (from[j] - mean) * (from[j] - mean); });
    const float inverse = 1 / std::sqrt(squares / width + norm.epsilon);
    if (moments.mean != nullptr)
      lanes.once([&] {
        moments.mean[row] = mean;
        moments.inverse[row] = inverse;
      });
    lanes.each(norm.width, [&](std::int64_t j) {
      const float z = (from[j] - mean) * inverse;
      to[j] = bias != nullptr ? z * weight[j] + bias[j] : z * weight[j];
    });
  }
};

template <class T>
struct RowNormInputGradient {
  RowNorm norm;
  const T* x;
  const T* dy;
  const float* weight;
  RowMoments moments;
  T* dx;
  template <class Lanes>
  DISTDL_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const std::int64_t start = row * norm.width;
    const float mean = moments.mean[row], inverse = moments.inverse[row];
    const auto z = [&](std::int64_t j) { return (x[start + j] - mean) * inverse; };
    const auto dz = [&](std::int64_t j) { return dy[start + j] * weight[j]; };
    const TwoSums sums = two_sums_over(lanes, norm.width, [&](std::int64_t j) { return TwoSums{dz(j), dz(j) * z(j)}; });
    const auto width = static_cast<float>(norm.width);
    const float shared = norm.is_centred ? sums.first / width : 0.0f, slope = sums.second / width;
    lanes.each(norm.width, [&](std::int64_t j) { dx[start + j] = inverse * (dz(j) - shared - z(j) * slope); });
  }
};

/// A column sum, see columns.hpp. `first` is the gradient of the weight, `second` that of the bias.
template <class T>
struct RowNormWeightGradient {
  using Sum = TwoColumnSums;
  RowNorm norm;
  const T* x;
  const T* dy;
  RowMoments moments;
  float* weight;
  float* bias;  ///< nullptr: none
  DISTDL_HOST_DEVICE Sum operator()(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = row * norm.width + column;
    const double slope = dy[i];
    return {slope * (x[i] - moments.mean[row]) * moments.inverse[row], slope};
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t column, const Sum& sum) const {
    weight[column] = static_cast<float>(sum.first);
    if (bias != nullptr) bias[column] = static_cast<float>(sum.second);
  }
};

}  // namespace distdl::kernels::cuda
