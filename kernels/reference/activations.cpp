// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/reference/layers.hpp>

namespace distdl::kernels::reference {
namespace {
class ReluLayer : public Stateless {
 public:
  using Stateless::Stateless;
  void forward(const float* x, float* y, Phase) override {
    for (std::int64_t i = 0; i < count(); ++i) y[i] = elementwise::Relu{}(x[i]);
  }
  void backward_input(const float*, const float* y, const float* dy, float* dx) override {
    for (std::int64_t i = 0; i < count(); ++i) dx[i] = elementwise::ReluGradient{}(y[i], dy[i]);
  }
};

/// In double.
template <class Function>
class ElementwiseLayer : public Stateless {
 public:
  using Stateless::Stateless;
  void forward(const float* x, float* y, Phase) override {
    for (std::int64_t i = 0; i < count(); ++i) y[i] = static_cast<float>(Function{}(double{x[i]}));
  }
  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    for (std::int64_t i = 0; i < count(); ++i)
      dx[i] = static_cast<float>(Function{}.gradient(double{x[i]}, double{dy[i]}));
  }
};

class GatedSiluLayer : public Stateless {
 public:
  explicit GatedSiluLayer(const tensor::Shape& output) : Stateless(dense(output)), width_(output.back()) {}
  void forward(const float* x, float* y, Phase) override {
    for (std::int64_t i = 0; i < count(); ++i)
      y[i] = static_cast<float>(silu_(double{x[gate(i)]}) * x[gate(i) + width_]);
  }
  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    for (std::int64_t i = 0; i < count(); ++i) {
      const double a = x[gate(i)], b = x[gate(i) + width_];
      dx[gate(i)] = static_cast<float>(silu_.gradient(a, dy[i] * b));
      dx[gate(i) + width_] = static_cast<float>(dy[i] * silu_(a));
    }
  }

 private:
  std::int64_t gate(std::int64_t i) const { return i / width_ * 2 * width_ + i % width_; }

  elementwise::Silu silu_;
  std::int64_t width_;
};
}  // namespace

std::unique_ptr<Layer> make_layer(const Relu&, const tensor::Shape& input) {
  return std::make_unique<ReluLayer>(dense(input));
}
std::unique_ptr<Layer> make_layer(const Gelu& spec, const tensor::Shape& input) {
  if (spec.tanh) return std::make_unique<ElementwiseLayer<elementwise::GeluTanh>>(dense(input));
  return std::make_unique<ElementwiseLayer<elementwise::Gelu>>(dense(input));
}
std::unique_ptr<Layer> make_layer(const Silu&, const tensor::Shape& input) {
  return std::make_unique<ElementwiseLayer<elementwise::Silu>>(dense(input));
}
std::unique_ptr<Layer> make_layer(const GatedSilu&, const tensor::Shape& input) {
  return std::make_unique<GatedSiluLayer>(output_shape(GatedSilu{}, input));
}
}  // namespace distdl::kernels::reference
