// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>

#include <distdl/kernels/cuda/attention/flash_kernels.cuh>
#include <distdl/kernels/cuda/attention/rotate_heads.cuh>
#include <distdl/kernels/cuda/attention/tensor_core.cuh>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
template <class T, int kWidth>
void launch_forward(const Device& device, const FlashArguments& arguments, const T* x, T* y) {
  const auto blocks = arguments.tiles() * arguments.of.heads * arguments.of.samples;
  flash_forward_kernel<TensorCore, T, kWidth>
      <<<static_cast<unsigned>(blocks), kFlashThreads, 0, device.stream()>>>(arguments, x, y);
  check(cudaGetLastError(), "start attention");
}

template <class T, int kWidth>
void launch_backward(const Device& device, const FlashArguments& arguments, const T* x, const T* dy, T* dx) {
  const auto of_samples = arguments.tiles() * arguments.of.samples;
  flash_query_gradient_kernel<TensorCore, T, kWidth>
      <<<static_cast<unsigned>(of_samples * arguments.of.heads), kFlashThreads, 0, device.stream()>>>(arguments, x, dy,
                                                                                                      dx);
  check(cudaGetLastError(), "start the gradient of attention's queries");
  flash_key_gradient_kernel<TensorCore, T, kWidth>
      <<<static_cast<unsigned>(of_samples * arguments.of.kv_heads), kFlashThreads, 0, device.stream()>>>(arguments, x,
                                                                                                         dy, dx);
  check(cudaGetLastError(), "start the gradient of attention's keys");
}

/// Keeps a logarithm for each query.
template <class T>
class FlashAttentionLayer : public StatelessOf<T> {
 public:
  FlashAttentionLayer(SharedDevice device, const Attention& spec, const ActivationFormat& input)
      : StatelessOf<T>(dense(output_shape(spec, input.shape), input.type)),
        device_(std::move(device)),
        of_(extents_of(spec, input.shape)),
        logarithms_(device_->allocate(of_.rows() * sizeof(float))),
        turns_(*device_, of_, spec.rotary_base) {
    device_->reserve_scratch(bytes_of_means() + turns_.bytes());
  }

  void forward(const T* x, T* y, Phase phase) override {
    FlashArguments arguments = this->arguments();
    if (phase == Phase::evaluation) arguments.logarithms = nullptr;
    const T* const turned = turn(x);
    if (of_.width <= 32) return launch_forward<T, 32>(*device_, arguments, turned, y);
    if (of_.width <= 64) return launch_forward<T, 64>(*device_, arguments, turned, y);
    launch_forward<T, 128>(*device_, arguments, turned, y);
  }

  void backward_input(const T* x, const T* y, const T* dy, T* dx) override {
    const FlashArguments arguments = this->arguments();
    for_each_row(*device_, static_cast<std::int64_t>(of_.rows()), MeanSlopes<T>{of_, y, dy, means()});
    const T* const turned = turn(x);
    if (of_.width <= 32)
      launch_backward<T, 32>(*device_, arguments, turned, dy, dx);
    else if (of_.width <= 64)
      launch_backward<T, 64>(*device_, arguments, turned, dy, dx);
    else
      launch_backward<T, 128>(*device_, arguments, turned, dy, dx);
    turns_.turn_back(*device_, dx);
  }

 private:
  FlashArguments arguments() const {
    return {of_, 1 / std::sqrt(static_cast<float>(of_.width)), static_cast<float*>(logarithms_.data()), means()};
  }
  const T* turn(const T* x) const {
    return turns_.turn(*device_, x, static_cast<char*>(device_->scratch()) + bytes_of_means());
  }
  // In the scratch: means, then x turned.
  float* means() const { return static_cast<float*>(device_->scratch()); }
  std::size_t bytes_of_means() const { return (of_.rows() * sizeof(float) + 255) / 256 * 256; }

  SharedDevice device_;
  AttentionExtents of_;
  tensor::Buffer logarithms_;  // (N, heads, T) floats
  HeadTurns<T> turns_;
};
}  // namespace

std::unique_ptr<Layer> make_flash_attention(SharedDevice device, const Attention& spec, const ActivationFormat& input) {
  if (input.type == tensor::DataType::bfloat16)
    return std::make_unique<FlashAttentionLayer<tensor::Bfloat16>>(std::move(device), spec, input);
  return std::make_unique<FlashAttentionLayer<tensor::Float16>>(std::move(device), spec, input);
}

}  // namespace distdl::kernels::cuda
