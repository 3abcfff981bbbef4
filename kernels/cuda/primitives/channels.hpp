// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/cuda/primitives/columns.hpp>
#include <distdl/kernels/elementwise/functors.hpp>

namespace distdl::kernels::cuda {

class Device;

/// The positions of a channel's values in (N, C, H, W), in (N, H, W, C), or in (N, C) with one pixel each.
struct Channels {
  std::int64_t samples;
  std::int64_t channels;
  std::int64_t pixels;   ///< H * W
  bool is_last = false;  ///< (N, H, W, C)

  /// Values of one channel.
  DISTDL_HOST_DEVICE constexpr std::int64_t values() const { return samples * pixels; }
  /// The channel of element i.
  DISTDL_HOST_DEVICE std::int64_t channel_of(std::int64_t i) const { return (is_last ? i : i / pixels) % channels; }
  /// The element that is value j of channel c.
  DISTDL_HOST_DEVICE std::int64_t element(std::int64_t c, std::int64_t j) const {
    return is_last ? j * channels + c : (j / pixels * channels + c) * pixels + j % pixels;
  }
};
Channels channels_of(const ActivationFormat& format);

/// The matrix with one column per channel, if channels are last.
constexpr ColumnChunks columns_of(const Channels& channels) {
  return column_chunks(channels.values(), channels.channels);
}

/// y += bias, one bias per channel.
template <class T>
struct AddBias {
  T* y;
  const float* bias;
  Channels channels;
  DISTDL_HOST_DEVICE T* target() const { return y; }
  DISTDL_HOST_DEVICE float value(std::size_t i) const {
    return elementwise::Add{}(y[i], bias[channels.channel_of(static_cast<std::int64_t>(i))]);
  }
};

/// The gradient of the bias: the sum of dy over a channel.
template <class T>
struct SumChannel {
  const T* dy;
  float* sums;
  Channels channels;
  DISTDL_HOST_DEVICE double operator()(std::int64_t c, std::int64_t j) const { return dy[channels.element(c, j)]; }
  DISTDL_HOST_DEVICE void finish(std::int64_t c, double sum) const { sums[c] = static_cast<float>(sum); }
};

// T is a type of activations.
template <class T>
void add_bias(const Device& device, const Channels& channels, const float* bias, T* y);
/// If channels are last, uses column_scratch<SumOfRows<T>>(columns_of(channels)) of the device's scratch memory.
template <class T>
void sum_channels(const Device& device, const Channels& channels, const T* dy, float* sums);

}  // namespace distdl::kernels::cuda
