// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/launch.cuh>
#include <distdl/kernels/cuda/layers.hpp>
#include <distdl/kernels/cuda/max_pool2d.hpp>

namespace distdl::kernels::cuda {
namespace {
class MaxPool2dLayer : public Layer {
 public:
  MaxPool2dLayer(SharedDevice device, const MaxPool2d& spec, const tensor::Shape& input)
      : device_(std::move(device)),
        output_(dense(output_shape(spec, input))),
        windows_{spec.kernel, spec.stride, spec.padding, input[2], input[3], output_.shape[2], output_.shape[3]},
        inputs_(static_cast<std::size_t>(tensor::element_count(input))),
        outputs_(static_cast<std::size_t>(tensor::element_count(output_.shape))) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers) override {}

  void forward(const float* x, float* y, Phase) override {
    for_each(*device_, outputs_, MaxPoolForward{x, y, windows_});
  }

  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    for_each(*device_, inputs_, MaxPoolBackward{x, dy, dx, windows_});
  }

  void backward_weights(const float*, const float*, Pointers) override {}

 private:
  SharedDevice device_;
  ActivationFormat output_;
  PoolWindows windows_;
  std::size_t inputs_;   // elements
  std::size_t outputs_;  // elements
};
}  // namespace

std::unique_ptr<Layer> make_max_pool2d(SharedDevice device, const MaxPool2d& spec, const tensor::Shape& input) {
  return std::make_unique<MaxPool2dLayer>(std::move(device), spec, input);
}

}  // namespace distdl::kernels::cuda
