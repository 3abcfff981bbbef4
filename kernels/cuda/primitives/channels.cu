// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/layers/image_layout.hpp>
#include <distdl/kernels/cuda/primitives/channels.hpp>
#include <distdl/kernels/cuda/primitives/launch.cuh>
#include <distdl/tensor/half.hpp>

namespace distdl::kernels::cuda {

Channels channels_of(const ActivationFormat& format) {
  const auto& shape = format.shape;
  return {shape[0], shape[1], shape.size() == 4 ? shape[2] * shape[3] : 1, has_channels_last(format)};
}

template <class T>
void add_bias(const Device& device, const Channels& channels, const float* bias, T* y) {
  fill_each(device, static_cast<std::size_t>(channels.values() * channels.channels), AddBias<T>{y, bias, channels});
}

template <class T>
void sum_channels(const Device& device, const Channels& channels, const T* dy, float* sums) {
  if (channels.is_last) return sum_rows(device, columns_of(channels), dy, channels.channels, sums);
  sum_each(device, channels.channels, channels.values(), SumChannel<T>{dy, sums, channels});
}

template void add_bias(const Device&, const Channels&, const float*, float*);
template void add_bias(const Device&, const Channels&, const float*, tensor::Bfloat16*);
template void add_bias(const Device&, const Channels&, const float*, tensor::Float16*);
template void sum_channels(const Device&, const Channels&, const float*, float*);
template void sum_channels(const Device&, const Channels&, const tensor::Bfloat16*, float*);
template void sum_channels(const Device&, const Channels&, const tensor::Float16*, float*);

}  // namespace distdl::kernels::cuda
