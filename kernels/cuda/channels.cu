// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/channels.hpp>
#include <distdl/kernels/cuda/launch.cuh>

namespace distdl::kernels::cuda {

Channels channels_of(const tensor::Shape& shape) {
  return {shape[0], shape[1], shape.size() == 4 ? shape[2] * shape[3] : 1};
}

void add_bias(const Device& device, const Channels& channels, const float* bias, float* y) {
  for_each(device, static_cast<std::size_t>(channels.values() * channels.channels), AddBias{y, bias, channels});
}

void sum_channels(const Device& device, const Channels& channels, const float* dy, float* sums) {
  sum_each(device, channels.channels, channels.values(), SumChannel{dy, sums, channels});
}

}  // namespace distdl::kernels::cuda
