// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>

namespace distdl::kernels::onednn {
namespace {
/// Everything dense: measured as fast as weights in oneDNN's own format, which would have to be repacked three times a
/// step. Only x and dx may have to be repacked, where a convolution comes before.
class LinearLayer : public Layer {
 public:
  LinearLayer(Context& context, const Linear& spec, const ActivationFormat& input)
      : output_(dense(output_shape(spec, input.shape))),
        x_(context, desc_of(input), dense_desc(input.shape)),
        dx_(context, desc_of(input), dense_desc(input.shape)),
        has_bias_(spec.bias) {
    const std::int64_t rows = tensor::element_count(output_.shape) / spec.out;
    const std::int64_t in = tensor::element_count(input.shape) / rows;
    const auto x = dense_desc({rows, in}), w = dense_desc({spec.out, in}), y = dense_desc({rows, spec.out});
    const auto b = spec.bias ? dense_desc({spec.out}) : dnnl::memory::desc();
    dnnl::inner_product_forward::primitive_desc forward({dnnl::prop_kind::forward_training, x, w, b, y}, attributes(),
                                                        context.engine());
    forward_ = {context,
                dnnl::inner_product_forward(forward),
                forward.scratchpad_desc(),
                {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST, y}}};
    dnnl::inner_product_backward_data::primitive_desc input_gradient({x, w, y}, attributes(), context.engine(),
                                                                     forward);
    input_ = {context,
              dnnl::inner_product_backward_data(input_gradient),
              input_gradient.scratchpad_desc(),
              {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, x}}};
    dnnl::inner_product_backward_weights::primitive_desc weights({x, w, b, y}, attributes(), context.engine(), forward);
    weights_ = {context,
                dnnl::inner_product_backward_weights(weights),
                weights.scratchpad_desc(),
                {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_DIFF_WEIGHTS, w}, {DNNL_ARG_DIFF_BIAS, b}}};
  }

  const ActivationFormat& output() const override { return output_; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = has_bias_ ? parameters[1] : nullptr;
  }

  void forward(const float* x, float* y, Phase) override {
    forward_.run({{DNNL_ARG_SRC, x_.load(x)}, {DNNL_ARG_WEIGHTS, weight_}, {DNNL_ARG_BIAS, bias_}, {DNNL_ARG_DST, y}});
  }

  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    input_.run({{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, weight_}, {DNNL_ARG_DIFF_SRC, dx_.target(dx)}});
    dx_.store(dx);
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    weights_.run({{DNNL_ARG_SRC, x_.load(x)},
                  {DNNL_ARG_DIFF_DST, dy},
                  {DNNL_ARG_DIFF_WEIGHTS, gradients[0]},
                  {DNNL_ARG_DIFF_BIAS, has_bias_ ? gradients[1] : nullptr}});
  }

 private:
  ActivationFormat output_;
  Operand x_, dx_;
  Operation forward_, input_, weights_;
  bool has_bias_;
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
};
}  // namespace

std::unique_ptr<Layer> make_linear(Context& context, const Linear& spec, const ActivationFormat& input) {
  return std::make_unique<LinearLayer>(context, spec, input);
}

}  // namespace distdl::kernels::onednn
