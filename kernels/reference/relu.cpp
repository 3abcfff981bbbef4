// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/reference/layers.hpp>

namespace distdl::kernels::reference {
namespace {
class ReluLayer : public Layer {
 public:
  explicit ReluLayer(const tensor::Shape& input) : output_(dense(input)), count_(tensor::element_count(input)) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers) override {}
  void forward(const float* x, float* y, Phase) override {
    elementwise::Relu relu;
    for (std::int64_t i = 0; i < count_; ++i) y[i] = relu(x[i]);
  }
  void backward_input(const float*, const float* y, const float* dy, float* dx) override {
    elementwise::ReluGradient gradient;
    for (std::int64_t i = 0; i < count_; ++i) dx[i] = gradient(y[i], dy[i]);
  }
  void backward_weights(const float*, const float*, Pointers) override {}

 private:
  ActivationFormat output_;
  std::int64_t count_;
};
}  // namespace

std::unique_ptr<Layer> make_relu(const tensor::Shape& input) {
  return std::make_unique<ReluLayer>(input);
}

}  // namespace distdl::kernels::reference
