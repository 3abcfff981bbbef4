// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/elementwise.hpp>
#include <distdl/kernels/cuda/layers.hpp>

namespace distdl::kernels::cuda {
namespace {
class ReluLayer : public Layer {
 public:
  ReluLayer(SharedDevice device, const tensor::Shape& input)
      : device_(std::move(device)),
        output_(dense(input)),
        count_(static_cast<std::size_t>(tensor::element_count(input))) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers) override {}
  void forward(const float* x, float* y, Phase) override { relu(*device_, x, y, count_); }
  void backward_input(const float*, const float* y, const float* dy, float* dx) override {
    relu_gradient(*device_, y, dy, dx, count_);
  }
  void backward_weights(const float*, const float*, Pointers) override {}

 private:
  SharedDevice device_;
  ActivationFormat output_;
  std::size_t count_;  // elements
};
}  // namespace

std::unique_ptr<Layer> make_relu(SharedDevice device, const tensor::Shape& input) {
  return std::make_unique<ReluLayer>(std::move(device), input);
}

}  // namespace distdl::kernels::cuda
