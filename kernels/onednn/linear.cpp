// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>
#include <distdl/kernels/onednn/versions.hpp>

namespace distdl::kernels::onednn {
namespace {
/// Floats, everything dense: measured as fast as weights in oneDNN's own format, which would have to be repacked three
/// times a step. Only x and dx may have to be repacked, where a convolution comes before.
class LinearLayer : public Layer {
 public:
  LinearLayer(Context& context, const Linear& spec, const ActivationFormat& input)
      : output_(dense(output_shape(spec, input.shape), input.type)),
        x_(context, desc_of(input), dense_desc(input.shape, input.type)),
        dx_(context, desc_of(input), dense_desc(input.shape, input.type)),
        has_bias_(spec.bias) {
    const std::int64_t rows = tensor::element_count(output_.shape) / spec.out;
    const std::int64_t in = tensor::element_count(input.shape) / rows;
    const auto x = dense_desc({rows, in}, input.type), y = dense_desc({rows, spec.out}, input.type);
    const auto w = dense_desc({spec.out, in}), b = spec.bias ? dense_desc({spec.out}) : dnnl::memory::desc();
    // Short weights are a copy in any case, so it has the format that oneDNN likes best.
    const bool is_float = input.type == tensor::DataType::float32;
    const auto read_w = is_float ? w : any_desc({spec.out, in}, input.type);
    const auto forward =
        describe<dnnl::inner_product_forward>(context, dnnl::prop_kind::forward_training, x, read_w, b, y);
    forward_weight_ = {context, w, forward.weights_desc()};
    forward_ = {context,
                dnnl::inner_product_forward(forward),
                forward.scratchpad_desc(),
                {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, forward.weights_desc()}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST, y}}};
    const auto input_gradient = describe_gradient<dnnl::inner_product_backward_data>(context, forward, x, read_w, y);
    input_weight_ = {context, w, input_gradient.weights_desc()};
    input_ = {context,
              dnnl::inner_product_backward_data(input_gradient),
              input_gradient.scratchpad_desc(),
              {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_WEIGHTS, input_gradient.weights_desc()}, {DNNL_ARG_DIFF_SRC, x}}};
    const auto weights = describe_gradient<dnnl::inner_product_backward_weights>(
        context, forward, x, is_float ? w : any_desc({spec.out, in}), b, y);
    gradient_ = {context, w, weights.diff_weights_desc()};
    weights_ = {context,
                dnnl::inner_product_backward_weights(weights),
                weights.scratchpad_desc(),
                {{DNNL_ARG_SRC, x},
                 {DNNL_ARG_DIFF_DST, y},
                 {DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc()},
                 {DNNL_ARG_DIFF_BIAS, b}}};
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = has_bias_ ? parameters[1] : nullptr;
    forward_weight_.load(weight_);
    input_weight_.load(weight_);
  }

  void share_parameters(const Layer& other) override {
    const auto& linear = dynamic_cast<const LinearLayer&>(other);
    forward_weight_.share(linear.forward_weight_);
    input_weight_.share(linear.input_weight_);
  }

  void forward(const void* x, void* y, Phase) override {
    forward_.run({{DNNL_ARG_SRC, x_.load(x)},
                  {DNNL_ARG_WEIGHTS, forward_weight_.loaded(weight_)},
                  {DNNL_ARG_BIAS, bias_},
                  {DNNL_ARG_DST, y}});
  }

  void backward_input(const void*, const void*, const void* dy, void* dx) override {
    input_.run({{DNNL_ARG_DIFF_DST, dy},
                {DNNL_ARG_WEIGHTS, input_weight_.loaded(weight_)},
                {DNNL_ARG_DIFF_SRC, dx_.target(dx)}});
    dx_.store(dx);
  }

  void backward_weights(const void* x, const void* dy, Pointers gradients) override {
    weights_.run({{DNNL_ARG_SRC, x_.load(x)},
                  {DNNL_ARG_DIFF_DST, dy},
                  {DNNL_ARG_DIFF_WEIGHTS, gradient_.target(gradients[0])},
                  {DNNL_ARG_DIFF_BIAS, has_bias_ ? gradients[1] : nullptr}});
    gradient_.store(gradients[0]);
  }

 private:
  ActivationFormat output_;
  Operand x_, dx_, forward_weight_, input_weight_, gradient_;
  Operation forward_, input_, weights_;
  bool has_bias_;
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
};
}  // namespace

std::unique_ptr<Layer> make_layer(Context& context, const Linear& spec, const ActivationFormat& input) {
  return std::make_unique<LinearLayer>(context, spec, input);
}

}  // namespace distdl::kernels::onednn
