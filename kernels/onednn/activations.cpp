// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>

namespace distdl::kernels::onednn {
namespace {
/// Works on any format as it lies: what fills up a block is zero, and stays so.
class ReluLayer : public Stateless {
 public:
  explicit ReluLayer(const ActivationFormat& input) : Stateless(input), count_(input.bytes / sizeof(float)) {}

  void forward(const float* __restrict x, float* __restrict y, Phase) override {
    elementwise::Relu relu;
    for (std::size_t i = 0; i < count_; ++i) y[i] = relu(x[i]);
  }

  void backward_input(const float*, const float* __restrict y, const float* __restrict dy,
                      float* __restrict dx) override {
    elementwise::ReluGradient gradient;
    for (std::size_t i = 0; i < count_; ++i) dx[i] = gradient(y[i], dy[i]);
  }

 private:
  std::size_t count_;
};

/// One of oneDNN's, on any format; all of them take 0 to 0.
class EltwiseLayer : public Stateless {
 public:
  EltwiseLayer(Context& context, dnnl::algorithm algorithm, const ActivationFormat& input) : Stateless(input) {
    constexpr float kAlpha = 1, kBeta = 0;
    const auto data = desc_of(input);
    const dnnl::eltwise_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm, data, kAlpha, kBeta}, attributes(), context.engine());
    forward_ = {context,
                dnnl::eltwise_forward(forward),
                forward.scratchpad_desc(),
                {{DNNL_ARG_SRC, data}, {DNNL_ARG_DST, data}}};
    const dnnl::eltwise_backward::primitive_desc backward({algorithm, data, data, kAlpha, kBeta}, attributes(),
                                                          context.engine(), forward);
    backward_ = {context,
                 dnnl::eltwise_backward(backward),
                 backward.scratchpad_desc(),
                 {{DNNL_ARG_SRC, data}, {DNNL_ARG_DIFF_DST, data}, {DNNL_ARG_DIFF_SRC, data}}};
  }

  void forward(const float* x, float* y, Phase) override { forward_.run({{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}}); }
  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    backward_.run({{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}});
  }

 private:
  Operation forward_, backward_;
};
}  // namespace

std::unique_ptr<Layer> make_relu(const ActivationFormat& input) {
  return std::make_unique<ReluLayer>(input);
}
std::unique_ptr<Layer> make_gelu(Context& context, const Gelu& spec, const ActivationFormat& input) {
  using dnnl::algorithm;
  return std::make_unique<EltwiseLayer>(context, spec.tanh ? algorithm::eltwise_gelu_tanh : algorithm::eltwise_gelu_erf,
                                        input);
}
std::unique_ptr<Layer> make_silu(Context& context, const ActivationFormat& input) {
  return std::make_unique<EltwiseLayer>(context, dnnl::algorithm::eltwise_swish, input);
}

}  // namespace distdl::kernels::onednn
