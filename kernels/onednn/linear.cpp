// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>

namespace distdl::kernels::onednn {
namespace {
using dnnl::memory;

struct Descriptors {
  dnnl::inner_product_forward::primitive_desc forward;
  dnnl::inner_product_backward_data::primitive_desc input;
  dnnl::inner_product_backward_weights::primitive_desc weights;
};

Descriptors describe(const Context& context, const tensor::Shape& x_shape, const tensor::Shape& w_shape) {
  auto x = any_desc(x_shape), w = any_desc(w_shape), b = dense_desc({w_shape[0]});
  auto y = dense_desc({x_shape[0], w_shape[0]});
  Descriptors pd;
  pd.forward = {{dnnl::prop_kind::forward_training, x, w, b, y}, attributes(), context.engine()};
  pd.input = {{x, w, y}, attributes(), context.engine(), pd.forward};
  pd.weights = {{x, w, b, y}, attributes(), context.engine(), pd.forward};
  return pd;
}

/// (out, in), or (out, C, H, W): the same bytes.
tensor::Shape weight_shape(const Linear& spec, tensor::Shape x) {
  x[0] = spec.out;
  return x;
}

class LinearLayer : public Layer {
 public:
  LinearLayer(Context& context, const Linear& spec, const ActivationFormat& input)
      : LinearLayer(context, desc_of(input), describe(context, input.shape, weight_shape(spec, input.shape))) {}

  const ActivationFormat& output() const override { return output_; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = parameters[1];
    forward_weight_.load(weight_);
    input_weight_.load(weight_);
  }

  void forward(const float* x, float* y, Phase) override {
    forward_.run({{DNNL_ARG_SRC, forward_x_.load(x)},
                  {DNNL_ARG_WEIGHTS, forward_weight_.loaded(weight_)},
                  {DNNL_ARG_BIAS, bias_},
                  {DNNL_ARG_DST, y}});
  }

  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    input_.run({{DNNL_ARG_DIFF_DST, dy},
                {DNNL_ARG_WEIGHTS, input_weight_.loaded(weight_)},
                {DNNL_ARG_DIFF_SRC, input_dx_.target(dx)}});
    input_dx_.store(dx);
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    weights_.run({{DNNL_ARG_SRC, weights_x_.load(x)},
                  {DNNL_ARG_DIFF_DST, dy},
                  {DNNL_ARG_DIFF_WEIGHTS, weights_dw_.target(gradients[0])},
                  {DNNL_ARG_DIFF_BIAS, gradients[1]}});
    weights_dw_.store(gradients[0]);
  }

 private:
  LinearLayer(Context& context, const memory::desc& x, const Descriptors& pd)
      : output_(format_of(pd.forward.dst_desc().dims(), pd.forward.dst_desc())) {
    auto y = pd.forward.dst_desc(), w = dense_desc(pd.forward.weights_desc().dims());
    forward_x_ = {context, x, pd.forward.src_desc()};
    forward_weight_ = {context, w, pd.forward.weights_desc()};
    forward_ = {context,
                dnnl::inner_product_forward(pd.forward),
                pd.forward.scratchpad_desc(),
                {{DNNL_ARG_SRC, pd.forward.src_desc()},
                 {DNNL_ARG_WEIGHTS, pd.forward.weights_desc()},
                 {DNNL_ARG_BIAS, pd.forward.bias_desc()},
                 {DNNL_ARG_DST, y}}};

    input_weight_ = {context, w, pd.input.weights_desc()};
    input_dx_ = {context, x, pd.input.diff_src_desc()};
    input_ = {context,
              dnnl::inner_product_backward_data(pd.input),
              pd.input.scratchpad_desc(),
              {{DNNL_ARG_DIFF_DST, y},
               {DNNL_ARG_WEIGHTS, pd.input.weights_desc()},
               {DNNL_ARG_DIFF_SRC, pd.input.diff_src_desc()}}};

    weights_x_ = {context, x, pd.weights.src_desc()};
    weights_dw_ = {context, w, pd.weights.diff_weights_desc()};
    weights_ = {context,
                dnnl::inner_product_backward_weights(pd.weights),
                pd.weights.scratchpad_desc(),
                {{DNNL_ARG_SRC, pd.weights.src_desc()},
                 {DNNL_ARG_DIFF_DST, y},
                 {DNNL_ARG_DIFF_WEIGHTS, pd.weights.diff_weights_desc()},
                 {DNNL_ARG_DIFF_BIAS, pd.weights.diff_bias_desc()}}};
  }

  ActivationFormat output_;
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
  Operation forward_, input_, weights_;
  Operand forward_x_, forward_weight_;
  Operand input_weight_, input_dx_;
  Operand weights_x_, weights_dw_;
};
}  // namespace

std::unique_ptr<Layer> make_linear(Context& context, const Linear& spec, const ActivationFormat& input) {
  return std::make_unique<LinearLayer>(context, spec, input);
}

}  // namespace distdl::kernels::onednn
