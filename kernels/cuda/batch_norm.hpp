// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/channels.hpp>

namespace distdl::kernels::cuda {

/// What a batch norm keeps per channel, in double like the reference backend.
struct BatchMoments {
  double* mean;
  double* variance;  ///< biased
  double* inverse;   ///< 1 / sqrt(variance + epsilon)
};

// Sums over a channel (see reduction.hpp) and element-wise passes, in the order in which they run.

struct BatchMean {
  const float* x;
  BatchMoments moments;
  Channels channels;
  DISTDL_HOST_DEVICE double operator()(std::int64_t c, std::int64_t j) const { return x[channels.element(c, j)]; }
  DISTDL_HOST_DEVICE void finish(std::int64_t c, double sum) const {
    moments.mean[c] = sum / static_cast<double>(channels.values());
  }
};

struct BatchVariance {
  const float* x;
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

/// For evaluation: the running statistics instead of the microbatch's.
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

struct Normalize {
  const float* x;
  float* y;
  const float* weight;
  const float* bias;
  BatchMoments moments;
  Channels channels;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const std::int64_t c = channels.channel_of(static_cast<std::int64_t>(i));
    y[i] = static_cast<float>((x[i] - moments.mean[c]) * (weight[c] * moments.inverse[c]) + bias[c]);
  }
};

/// weight: sum of dy * normalized x; bias: sum of dy.
struct GradientSums {
  double* weight;
  double* bias;
};

struct WeightGradient {
  const float* x;
  const float* dy;
  BatchMoments moments;
  GradientSums sums;
  Channels channels;
  DISTDL_HOST_DEVICE double operator()(std::int64_t c, std::int64_t j) const {
    const std::int64_t i = channels.element(c, j);
    return dy[i] * (x[i] - moments.mean[c]) * moments.inverse[c];
  }
  DISTDL_HOST_DEVICE void finish(std::int64_t c, double sum) const { sums.weight[c] = sum; }
};

struct BiasGradient {
  const float* dy;
  GradientSums sums;
  Channels channels;
  DISTDL_HOST_DEVICE double operator()(std::int64_t c, std::int64_t j) const { return dy[channels.element(c, j)]; }
  DISTDL_HOST_DEVICE void finish(std::int64_t c, double sum) const { sums.bias[c] = sum; }
};

struct InputGradient {
  const float* x;
  const float* dy;
  float* dx;
  const float* weight;
  BatchMoments moments;
  GradientSums sums;
  Channels channels;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    const std::int64_t c = channels.channel_of(static_cast<std::int64_t>(i));
    const double normalized = (x[i] - moments.mean[c]) * moments.inverse[c];
    const double shared = (sums.bias[c] + normalized * sums.weight[c]) / static_cast<double>(channels.values());
    dx[i] = static_cast<float>(weight[c] * moments.inverse[c] * (dy[i] - shared));
  }
};

/// Writes one microbatch's gradients and observed statistics; the observed variance is the unbiased one.
struct BatchNormGradients {
  BatchMoments moments;
  GradientSums sums;
  float* weight;
  float* bias;
  float* mean;
  float* variance;
  double unbiased;  ///< factor from the biased variance
  DISTDL_HOST_DEVICE void operator()(std::size_t c) const {
    weight[c] = static_cast<float>(sums.weight[c]);
    bias[c] = static_cast<float>(sums.bias[c]);
    mean[c] = static_cast<float>(moments.mean[c]);
    variance[c] = static_cast<float>(moments.variance[c] * unbiased);
  }
};

}  // namespace distdl::kernels::cuda
