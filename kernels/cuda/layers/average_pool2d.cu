// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/layers/average_pool2d.hpp>
#include <distdl/kernels/cuda/layers/image_layout.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/primitives/rows.cuh>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
template <class T>
class AveragePool2dLayer : public StatelessOf<T> {
 public:
  AveragePool2dLayer(SharedDevice device, const AveragePool2d& spec, const ActivationFormat& input)
      : StatelessOf<T>(like(input, output_shape(spec, input.shape))),
        device_(std::move(device)),
        windows_(windows_over(input, this->output(), spec.kernel, spec.stride, 0)),
        inputs_(input.elements()) {}

  bool backward_reads_output() const override { return false; }
  void forward(const T* x, T* y, Phase) override {
    for_each(*device_, static_cast<std::size_t>(this->count()), AveragePoolForward<T>{x, y, windows_});
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    for_each(*device_, inputs_, AveragePoolBackward<T>{dy, dx, windows_});
  }

 private:
  SharedDevice device_;
  PoolWindows windows_;
  std::size_t inputs_;  // elements
};

template <class T>
class GlobalAveragePoolLayer : public StatelessOf<T> {
 public:
  GlobalAveragePoolLayer(SharedDevice device, const ActivationFormat& input)
      : StatelessOf<T>(dense(output_shape(GlobalAveragePool{}, input.shape), input.type)),
        device_(std::move(device)),
        pixels_(input.shape[2] * input.shape[3]),
        channels_(input.shape[1]),
        is_last_(has_channels_last(input)) {}

  bool backward_reads_output() const override { return false; }
  void forward(const T* x, T* y, Phase) override {
    if (is_last_) return for_each(*device_, planes(), PixelMean<T>{x, y, pixels_, channels_});
    for_each_row(*device_, this->count(), PlaneMean<T>{x, y, pixels_});
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    const auto values = planes() * static_cast<std::size_t>(pixels_);
    if (is_last_) return fill_each(*device_, values, PixelMeanGradient<T>{dy, dx, pixels_, channels_});
    for_each_row(*device_, this->count(), PlaneMeanGradient<T>{dy, dx, pixels_});
  }

 private:
  std::size_t planes() const { return static_cast<std::size_t>(this->count()); }

  SharedDevice device_;
  std::int64_t pixels_, channels_;
  bool is_last_;
};
}  // namespace

std::unique_ptr<Layer> make_layer(SharedDevice device, const AveragePool2d& spec, const ActivationFormat& input) {
  return make_of_type<AveragePool2dLayer>(input.type, device, spec, input);
}
std::unique_ptr<Layer> make_layer(SharedDevice device, const GlobalAveragePool&, const ActivationFormat& input) {
  return make_of_type<GlobalAveragePoolLayer>(input.type, device, input);
}

}  // namespace distdl::kernels::cuda
