// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/host/vectors.hpp>
#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>
#include <distdl/kernels/onednn/versions.hpp>

namespace distdl::kernels::onednn {
namespace {
float at_least_zero(float x) {
  return x < 0.0f ? 0.0f : x;
}
float where_positive(float y, float dy) {
  return y > 0.0f ? dy : 0.0f;
}
// In integers of 16 bits, so that the compiler takes vectors; without rounding.
template <class Maths>
tensor::Half<Maths> at_least_zero(tensor::Half<Maths> x) {
  const auto bits = static_cast<std::int16_t>(x.bits);
  const bool gone = (bits < 0) & !Maths::Order::is_nan(bits);
  x.bits = gone ? 0 : x.bits;
  return x;
}
template <class Maths>
tensor::Half<Maths> where_positive(tensor::Half<Maths> y, tensor::Half<Maths> dy) {
  dy.bits = static_cast<std::int16_t>(y.bits) > 0 ? dy.bits : 0;
  return dy;
}

template <class T>
void forward_in_place(T* y, std::size_t count) {
  host::vectorized([=] {
    for (std::size_t i = 0; i < count; ++i) y[i] = at_least_zero(y[i]);
  });
}

/// Works on any format as it lies: what fills up a block is zero, and stays so. A NaN stays one.
template <class T>
class ReluLayer : public StatelessOf<T> {
 public:
  explicit ReluLayer(const ActivationFormat& input) : StatelessOf<T>(input), count_(input.elements()) {}
  bool works_in_place() const override { return true; }

  // In place is a loop of its own: one over two arrays that may be one is not vectorized.
  void forward(const T* x, T* y, Phase) override {
    if (x == y) return forward_in_place(y, count_);
    T* const __restrict to = y;
    host::vectorized([=, count = count_] {
      for (std::size_t i = 0; i < count; ++i) to[i] = at_least_zero(x[i]);
    });
  }

  void backward_input(const T*, const T* y, const T* dy, T* dx) override {
    if (dx == dy) {
      T* const __restrict to = dx;
      host::vectorized([=, count = count_] {
        for (std::size_t i = 0; i < count; ++i) to[i] = where_positive(y[i], to[i]);
      });
      return;
    }
    T* const __restrict to = dx;
    host::vectorized([=, count = count_] {
      for (std::size_t i = 0; i < count; ++i) to[i] = where_positive(y[i], dy[i]);
    });
  }

 private:
  std::size_t count_;
};

/// One of oneDNN's, on any format; all of them take 0 to 0.
class EltwiseLayer : public Layer {
 public:
  EltwiseLayer(Context& context, dnnl::algorithm algorithm, const ActivationFormat& input) : output_(input) {
    constexpr float kAlpha = 1, kBeta = 0;
    const auto data = desc_of(input);
    const auto forward = describe_eltwise(context, algorithm, data, kAlpha, kBeta);
    forward_ = {context,
                dnnl::eltwise_forward(forward),
                forward.scratchpad_desc(),
                {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, data}}};
    const auto backward = describe_gradient(context, forward, algorithm, data, kAlpha, kBeta);
    backward_ = {context,
                 dnnl::eltwise_backward(backward),
                 backward.scratchpad_desc(),
                 {{DNNL_ARG_SRC, data}, {DNNL_ARG_DIFF_DST, data}, {DNNL_ARG_DIFF_SRC, data}}};
  }

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers) override {}
  bool backward_reads_output() const override { return false; }
  void forward(const void* x, void* y, Phase) override { forward_.run({{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}}); }
  void backward_input(const void* x, const void*, const void* dy, void* dx) override {
    backward_.run({{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}});
  }
  void backward_weights(const void*, const void*, Pointers) override {}

 private:
  ActivationFormat output_;
  Operation forward_, backward_;
};
}  // namespace

void relu_in_place(const ActivationFormat& format, void* y) {
  tensor::with_type(format.type,
                    [&](auto type) { forward_in_place(static_cast<decltype(type)*>(y), format.elements()); });
}

std::unique_ptr<Layer> make_layer(Context&, const Relu&, const ActivationFormat& input) {
  return tensor::with_type(input.type, [&](auto type) -> std::unique_ptr<Layer> {
    return std::make_unique<ReluLayer<decltype(type)>>(input);
  });
}
std::unique_ptr<Layer> make_layer(Context& context, const Gelu& spec, const ActivationFormat& input) {
  using dnnl::algorithm;
  return std::make_unique<EltwiseLayer>(context, spec.tanh ? algorithm::eltwise_gelu_tanh : algorithm::eltwise_gelu_erf,
                                        input);
}
std::unique_ptr<Layer> make_layer(Context& context, const Silu&, const ActivationFormat& input) {
  return std::make_unique<EltwiseLayer>(context, dnnl::algorithm::eltwise_swish, input);
}

}  // namespace distdl::kernels::onednn
