// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/primitives/channels.hpp>

namespace distdl::kernels::cuda {

/// The values that a batch norm keeps per channel, in double as in the reference backend.
struct BatchMoments {
  double* mean;
  double* variance;  ///< biased
  double* inverse;   ///< 1 / sqrt(variance + epsilon)
};

// Sums over a channel (see reduction.hpp) and element-wise passes, in the order of execution.

template <class T>
struct BatchMean {
  const T* x;
  BatchMoments moments;
  Channels channels;
  DISTDL_HOST_DEVICE double operator()(std::int64_t c, std::int64_t j) const { return x[channels.element(c, j)]; }
  DISTDL_HOST_DEVICE void finish(std::int64_t c, double sum) const {
    moments.mean[c] = sum / static_cast<double>(channels.values());
  }
};

template <class T>
struct BatchVariance {
  const T* x;
  BatchMoments moments;
  Channels channels;
  double epsilon;
  DISTDL_HOST_DEVICE double operator()(std::int64_t c, std::int64_t j) const {
    const double distance = x[channels.element(c, j)] - moments.mean[c];
    return distance * distance;
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t c, double sum) const {
    moments.variance[c] = sum / static_cast<double>(channels.values());
    moments.inverse[c] = 1 / std::sqrt(moments.variance[c] + epsilon);
  }
};

/// Both sums in one pass if channels are last: a column sum, see columns.hpp. The squares of 16 bits are exact.
template <class T>
struct BatchSums {
  using Sum = TwoColumnSums;
  const T* x;
  BatchMoments moments;
  Channels channels;
  double epsilon;
  DISTDL_HOST_DEVICE Sum operator()(std::int64_t row, std::int64_t c) const {
    const double value = x[row * channels.channels + c];
    return {value, value * value};
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t c, const Sum& sum) const {
    const auto values = static_cast<double>(channels.values());
    const double mean = sum.first / values, variance = sum.second / values - mean * mean;
    moments.mean[c] = mean;
    moments.variance[c] = variance < 0 ? 0 : variance;
    moments.inverse[c] = 1 / std::sqrt(moments.variance[c] + epsilon);
  }
};

/// The gradient of the norm's output if a ReLU follows.
template <class T>
struct Slope {
  const T* dy;
  const T* y = nullptr;  ///< output of the ReLU; nullptr: there is none
  DISTDL_HOST_DEVICE float operator[](std::int64_t i) const {
    return y == nullptr ? static_cast<float>(dy[i]) : elementwise::ReluGradient{}(y[i], dy[i]);
  }
};

/// For evaluation: uses the running statistics instead of those of the microbatch.
struct RunningMoments {
  const float* running_mean;
  const float* running_var;
  BatchMoments moments;
  double epsilon;
  DISTDL_HOST_DEVICE void operator()(std::size_t c) const {
    moments.mean[c] = running_mean[c];
    moments.variance[c] = running_var[c];
    moments.inverse[c] = 1 / std::sqrt(moments.variance[c] + epsilon);
  }
};

template <class T>
struct Normalize {
  const T* x;
  T* y;
  const float* weight;
  const float* bias;
  BatchMoments moments;
  Channels channels;
  bool then_relu = false;
  DISTDL_HOST_DEVICE T* target() const { return y; }
  DISTDL_HOST_DEVICE float value(std::size_t i) const {
    const std::int64_t c = channels.channel_of(static_cast<std::int64_t>(i));
    const auto normalized = static_cast<float>((x[i] - moments.mean[c]) * (weight[c] * moments.inverse[c]) + bias[c]);
    return then_relu ? elementwise::Relu{}(normalized) : normalized;
  }
};

/// weight: sum of dy * normalized x; bias: sum of dy.
struct GradientSums {
  double* weight;
  double* bias;
};

template <class T>
struct WeightGradient {
  const T* x;
  Slope<T> dy;
  BatchMoments moments;
  GradientSums sums;
  Channels channels;
  DISTDL_HOST_DEVICE double operator()(std::int64_t c, std::int64_t j) const {
    const std::int64_t i = channels.element(c, j);
    return dy[i] * (x[i] - moments.mean[c]) * moments.inverse[c];
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t c, double sum) const { sums.weight[c] = sum; }
};

template <class T>
struct BiasGradient {
  Slope<T> dy;
  GradientSums sums;
  Channels channels;
  DISTDL_HOST_DEVICE double operator()(std::int64_t c, std::int64_t j) const { return dy[channels.element(c, j)]; }
  DISTDL_HOST_DEVICE void finish(std::int64_t c, double sum) const { sums.bias[c] = sum; }
};

/// Both sums in one pass if channels are last.
template <class T>
struct BothGradients {
  using Sum = TwoColumnSums;
  const T* x;
  Slope<T> dy;
  BatchMoments moments;
  GradientSums sums;
  std::int64_t channels;
  DISTDL_HOST_DEVICE Sum operator()(std::int64_t row, std::int64_t c) const {
    const std::int64_t i = row * channels + c;
    const double slope = dy[i];
    return {slope * (x[i] - moments.mean[c]) * moments.inverse[c], slope};
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t c, const Sum& sum) const {
    sums.weight[c] = sum.first;
    sums.bias[c] = sum.second;
  }
};

template <class T>
struct InputGradient {
  const T* x;
  Slope<T> dy;
  T* dx;
  const float* weight;
  BatchMoments moments;
  GradientSums sums;
  Channels channels;
  DISTDL_HOST_DEVICE T* target() const { return dx; }
  DISTDL_HOST_DEVICE float value(std::size_t i) const {
    const std::int64_t c = channels.channel_of(static_cast<std::int64_t>(i));
    const double normalized = (x[i] - moments.mean[c]) * moments.inverse[c];
    const double shared = (sums.bias[c] + normalized * sums.weight[c]) / static_cast<double>(channels.values());
    return static_cast<float>(weight[c] * moments.inverse[c] * (dy[i] - shared));
  }
};

/// Writes the gradients and observed statistics of one microbatch. The observed variance is the unbiased one.
struct BatchNormGradients {
  BatchMoments moments;
  GradientSums sums;
  float* weight;
  float* bias;
  float* mean;
  float* variance;
  double unbiased;  ///< factor from the biased to the unbiased variance
  DISTDL_HOST_DEVICE void operator()(std::size_t c) const {
    weight[c] = static_cast<float>(sums.weight[c]);
    bias[c] = static_cast<float>(sums.bias[c]);
    mean[c] = static_cast<float>(moments.mean[c]);
    variance[c] = static_cast<float>(moments.variance[c] * unbiased);
  }
};

}  // namespace distdl::kernels::cuda
