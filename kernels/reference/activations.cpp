// SPDX-License-Identifier: Apache-2.0
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
  explicit GatedSiluLayer(const tensor::Shape& output) : Stateless(output), width_(output.back()) {}
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

class DropoutLayer : public Stateless {
 public:
  DropoutLayer(const Dropout& spec, const tensor::Shape& shape, const Noise& noise)
      : Stateless(shape), spec_(spec), noise_(noise) {}
  void forward(const float* x, float* y, Phase phase) override {
    if (phase == Phase::evaluation)
      std::copy_n(x, count(), y);
    else
      drop(x, y);
  }
  void backward_input(const float*, const float*, const float* dy, float* dx) override { drop(dy, dx); }

 private:
  void drop(const float* from, float* to) const {
    const elementwise::Stays stays{noise_, spec_.stream, spec_.probability};
    for (std::int64_t i = 0; i < count(); ++i)
      to[i] = stays(static_cast<std::uint64_t>(i)) ? from[i] / (1 - spec_.probability) : 0.0f;
  }

  Dropout spec_;
  const Noise& noise_;
};
}  // namespace

std::unique_ptr<Layer> make_relu(const tensor::Shape& input) {
  return std::make_unique<ReluLayer>(input);
}
std::unique_ptr<Layer> make_gelu(const Gelu& spec, const tensor::Shape& input) {
  if (spec.tanh) return std::make_unique<ElementwiseLayer<elementwise::GeluTanh>>(input);
  return std::make_unique<ElementwiseLayer<elementwise::Gelu>>(input);
}
std::unique_ptr<Layer> make_silu(const tensor::Shape& input) {
  return std::make_unique<ElementwiseLayer<elementwise::Silu>>(input);
}
std::unique_ptr<Layer> make_gated_silu(const tensor::Shape& input) {
  return std::make_unique<GatedSiluLayer>(output_shape(GatedSilu{}, input));
}
std::unique_ptr<Layer> make_dropout(const Dropout& spec, const tensor::Shape& input, const Noise& noise) {
  return std::make_unique<DropoutLayer>(spec, input, noise);
}

}  // namespace distdl::kernels::reference
