// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/reference/layers.hpp>

namespace distdl::kernels::reference {
namespace {
class LinearLayer : public FloatLayer {
 public:
  LinearLayer(const Linear& spec, const tensor::Shape& input)
      : output_(dense(output_shape(spec, input))),
        rows_(tensor::element_count(output_.shape) / spec.out),
        in_(tensor::element_count(input) / rows_),
        out_(spec.out),
        has_bias_(spec.bias) {}

  const ActivationFormat& output() const override { return output_; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = has_bias_ ? parameters[1] : nullptr;
  }

  void forward(const float* x, float* y, Phase) override {
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::int64_t o = 0; o < out_; ++o) {
        double sum = bias_ ? bias_[o] : 0;
        for (std::int64_t i = 0; i < in_; ++i) sum += double{x[n * in_ + i]} * weight_[o * in_ + i];
        y[n * out_ + o] = static_cast<float>(sum);
      }
  }

  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    for (std::int64_t n = 0; n < rows_; ++n)
      for (std::int64_t i = 0; i < in_; ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < out_; ++o) sum += double{dy[n * out_ + o]} * weight_[o * in_ + i];
        dx[n * in_ + i] = static_cast<float>(sum);
      }
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    for (std::int64_t o = 0; o < out_; ++o) {
      double bias = 0;
      for (std::int64_t n = 0; n < rows_; ++n) bias += dy[n * out_ + o];
      if (has_bias_) gradients[1][o] = static_cast<float>(bias);
      for (std::int64_t i = 0; i < in_; ++i) {
        double sum = 0;
        for (std::int64_t n = 0; n < rows_; ++n) sum += double{dy[n * out_ + o]} * x[n * in_ + i];
        gradients[0][o * in_ + i] = static_cast<float>(sum);
      }
    }
  }

 private:
  ActivationFormat output_;
  std::int64_t rows_, in_, out_;
  bool has_bias_;
  const float* weight_ = nullptr;  // (out, in)
  const float* bias_ = nullptr;    // (out)
};
}  // namespace

std::unique_ptr<Layer> make_layer(const Linear& spec, const tensor::Shape& input) {
  return std::make_unique<LinearLayer>(spec, input);
}

}  // namespace distdl::kernels::reference
