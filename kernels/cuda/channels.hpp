// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/host_device.hpp>
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::kernels::cuda {

class Device;

/// Where the values of a channel lie in (N, C, H, W), or in (N, C) with one pixel each.
struct Channels {
  std::int64_t samples;
  std::int64_t channels;
  std::int64_t pixels;  ///< H * W

  /// Values of one channel.
  DISTDL_HOST_DEVICE std::int64_t values() const { return samples * pixels; }
  /// The channel of element i.
  DISTDL_HOST_DEVICE std::int64_t channel_of(std::int64_t i) const { return i / pixels % channels; }
  /// The element that is value j of channel c.
  DISTDL_HOST_DEVICE std::int64_t element(std::int64_t c, std::int64_t j) const {
    return (j / pixels * channels + c) * pixels + j % pixels;
  }
};
Channels channels_of(const tensor::Shape& shape);

/// y += bias, one bias per channel.
struct AddBias {
  float* y;
  const float* bias;
  Channels channels;
  DISTDL_HOST_DEVICE void operator()(std::size_t i) const {
    y[i] = elementwise::Add{}(y[i], bias[channels.channel_of(static_cast<std::int64_t>(i))]);
  }
};

/// The gradient of the bias: the sum of dy over a channel.
struct SumChannel {
  const float* dy;
  float* sums;
  Channels channels;
  DISTDL_HOST_DEVICE double operator()(std::int64_t c, std::int64_t j) const { return dy[channels.element(c, j)]; }
  DISTDL_HOST_DEVICE void finish(std::int64_t c, double sum) const { sums[c] = static_cast<float>(sum); }
};

void add_bias(const Device& device, const Channels& channels, const float* bias, float* y);
void sum_channels(const Device& device, const Channels& channels, const float* dy, float* sums);

}  // namespace distdl::kernels::cuda
