// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/average_pool2d.hpp>
#include <distdl/kernels/cuda/layers.hpp>
#include <distdl/kernels/cuda/rows.cuh>
#include <distdl/kernels/host/stateless.hpp>

namespace distdl::kernels::cuda {
namespace {
class AveragePool2dLayer : public Stateless {
 public:
  AveragePool2dLayer(SharedDevice device, const AveragePool2d& spec, const tensor::Shape& input)
      : Stateless(dense(output_shape(spec, input))),
        device_(std::move(device)),
        windows_{spec.kernel, spec.stride, 0, input[2], input[3], output().shape[2], output().shape[3]},
        inputs_(static_cast<std::size_t>(tensor::element_count(input))) {}

  void forward(const float* x, float* y, Phase) override {
    for_each(*device_, static_cast<std::size_t>(count()), AveragePoolForward{x, y, windows_});
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    for_each(*device_, inputs_, AveragePoolBackward{dy, dx, windows_});
  }

 private:
  SharedDevice device_;
  PoolWindows windows_;
  std::size_t inputs_;  // elements
};

class GlobalAveragePoolLayer : public Stateless {
 public:
  GlobalAveragePoolLayer(SharedDevice device, const tensor::Shape& input)
      : Stateless(dense(output_shape(GlobalAveragePool{}, input))),
        device_(std::move(device)),
        pixels_(input[2] * input[3]) {}

  void forward(const float* x, float* y, Phase) override { for_each_row(*device_, count(), PlaneMean{x, y, pixels_}); }
  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    for_each_row(*device_, count(), PlaneMeanGradient{dy, dx, pixels_});
  }

 private:
  SharedDevice device_;
  std::int64_t pixels_;
};
}  // namespace

std::unique_ptr<Layer> make_average_pool2d(SharedDevice device, const AveragePool2d& spec, const tensor::Shape& input) {
  return std::make_unique<AveragePool2dLayer>(std::move(device), spec, input);
}
std::unique_ptr<Layer> make_global_average_pool(SharedDevice device, const tensor::Shape& input) {
  return std::make_unique<GlobalAveragePoolLayer>(std::move(device), input);
}

}  // namespace distdl::kernels::cuda
