// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include <distdl/kernels/cuda/biased_product.hpp>
#include <distdl/kernels/cuda/columns.hpp>
#include <distdl/kernels/cuda/layers.hpp>

namespace distdl::kernels::cuda {
namespace {
class LinearLayer : public Layer {
 public:
  LinearLayer(SharedDevice device, const Linear& spec, const tensor::Shape& input)
      : device_(std::move(device)),
        output_(dense(output_shape(spec, input))),
        gemms_(gemms_of(spec, input, output_.shape)),
        chunks_(column_chunks(gemms_.rows, gemms_.out)) {
    if (!spec.bias) return;
    biased_.emplace(*device_, gemms_.forward());
    device_->reserve_scratch(column_scratch<SumOfRows>(chunks_));
  }

  const ActivationFormat& output() const override { return output_; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = biased_ ? parameters[1] : nullptr;
  }

  void forward(const float* x, float* y, Phase) override {
    if (biased_)
      biased_->run(*device_, weight_, x, bias_, y);
    else
      multiply(*device_, gemms_.forward(), 1, weight_, x, y);
  }

  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    multiply(*device_, gemms_.backward_input(), 1, weight_, dy, dx);
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    multiply(*device_, gemms_.backward_weights(), 1, x, dy, gradients[0]);
    if (biased_) sum_rows(*device_, chunks_, dy, gemms_.out, gradients[1]);
  }

 private:
  static LinearGemms gemms_of(const Linear& spec, const tensor::Shape& input, const tensor::Shape& output) {
    const std::int64_t rows = tensor::element_count(output) / spec.out;
    return {rows, tensor::element_count(input) / rows, spec.out};
  }

  SharedDevice device_;
  ActivationFormat output_;
  LinearGemms gemms_;
  ColumnChunks chunks_;  // of dy, for the gradient of the bias
  std::optional<BiasedProduct> biased_;
  const float* weight_ = nullptr;  // (out, in)
  const float* bias_ = nullptr;    // (out)
};
}  // namespace

std::unique_ptr<Layer> make_linear(SharedDevice device, const Linear& spec, const tensor::Shape& input) {
  return std::make_unique<LinearLayer>(std::move(device), spec, input);
}

}  // namespace distdl::kernels::cuda
