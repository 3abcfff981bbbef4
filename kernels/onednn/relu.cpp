// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/onednn/layers.hpp>

namespace distdl::kernels::onednn {
namespace {
/// Works on any format as it lies: what fills up a block is zero, and stays so.
class ReluLayer : public Layer {
 public:
  explicit ReluLayer(const ActivationFormat& input) : output_(input), count_(input.bytes / sizeof(float)) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers) override {}

  void forward(const float* __restrict x, float* __restrict y, Phase) override {
    elementwise::Relu relu;
    for (std::size_t i = 0; i < count_; ++i) y[i] = relu(x[i]);
  }

  void backward_input(const float*, const float* __restrict y, const float* __restrict dy,
                      float* __restrict dx) override {
    elementwise::ReluGradient gradient;
    for (std::size_t i = 0; i < count_; ++i) dx[i] = gradient(y[i], dy[i]);
  }

  void backward_weights(const float*, const float*, Pointers) override {}

 private:
  ActivationFormat output_;
  std::size_t count_;
};
}  // namespace

std::unique_ptr<Layer> make_relu(const ActivationFormat& input) {
  return std::make_unique<ReluLayer>(input);
}

}  // namespace distdl::kernels::onednn
