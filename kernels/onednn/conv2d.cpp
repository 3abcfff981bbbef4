// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>
#include <distdl/kernels/onednn/versions.hpp>
#include <distdl/kernels/onednn/winograd/conv2d.hpp>

namespace distdl::kernels::onednn {
namespace {
using dnnl::memory;
using dnnl::prop_kind;

/// oneDNN's own choice, Winograd's way where it has that, if there are channels enough: with 32 its transforms cost
/// more than they save. Most shapes that such a way suits are for winograd/conv2d.hpp.
dnnl::algorithm algorithm_for(std::int64_t channels, std::int64_t out) {
  constexpr std::int64_t kWorthTransforms = 64;
  return std::min(channels, out) >= kWorthTransforms ? dnnl::algorithm::convolution_auto
                                                     : dnnl::algorithm::convolution_direct;
}

/// The one that `described_for` makes for dy in the format `y`; for dy in any other if only oneDNN's plain loops are
/// left for that. They are a thousand times slower than a matrix product, which needs a format of its own: so it is
/// without AVX-512 for the weights of a 3x3 kernel over 2x2 pixels.
template <class Describe>
auto quickest(const Describe& described_for, const memory::desc& y, const memory::desc& any) {
  auto described = described_for(y);
  return std::string_view(described.impl_info_str()).starts_with("ref") ? described_for(any) : described;
}

struct Descriptors {
  dnnl::convolution_forward::primitive_desc forward;
  dnnl::convolution_backward_data::primitive_desc input;
  dnnl::convolution_backward_weights::primitive_desc weights;
};

tensor::Shape weight_shape(const Conv2d& spec, const tensor::Shape& in) {
  tensor::Shape weight{spec.out / spec.groups, in[1] / spec.groups, spec.kernel, spec.kernel};
  if (spec.groups > 1) weight.insert(weight.begin(), spec.groups);
  return weight;
}

Descriptors descriptors(const Context& context, const Conv2d& spec, const ActivationFormat& input) {
  const tensor::Shape &in = input.shape, out = output_shape(spec, in);
  const memory::dims stride(2, spec.stride), padding(2, spec.padding), dilation(2, spec.dilation - 1);
  const tensor::Shape weight = weight_shape(spec, in);
  const auto x = any_desc(in, input.type), y = any_desc(out, input.type);
  auto w = any_desc(weight, input.type);
  const auto algorithm = algorithm_for(in[1] / spec.groups, spec.out / spec.groups);
  auto b = spec.bias ? dense_desc({spec.out}) : memory::desc();
  Descriptors pd;
  pd.forward = describe<dnnl::convolution_forward>(context, prop_kind::forward_training, algorithm, x, w, b, y, stride,
                                                   dilation, padding, padding);
  const auto input_pass = [&](const memory::desc& dy) {
    return describe_gradient<dnnl::convolution_backward_data>(context, pd.forward, algorithm, x, w, dy, stride,
                                                              dilation, padding, padding);
  };
  const auto weights_pass = [&](const memory::desc& dy) {
    return describe_gradient<dnnl::convolution_backward_weights>(context, pd.forward, algorithm, x, w, b, dy, stride,
                                                                 dilation, padding, padding);
  };
  pd.input = quickest(input_pass, pd.forward.dst_desc(), y);  // dy comes in the format of y
  w = any_desc(weight);                                       // gradients are floats
  pd.weights = quickest(weights_pass, pd.forward.dst_desc(), y);
  return pd;
}

class Conv2dLayer : public Layer {
 public:
  Conv2dLayer(Context& context, const Conv2d& spec, const ActivationFormat& input)
      : Conv2dLayer(context, spec, input, descriptors(context, spec, input)) {}

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = has_bias_ ? parameters[1] : nullptr;
    forward_weight_.load(weight_);
    input_weight_.load(weight_);
  }

  void forward(const void* x, void* y, Phase) override {
    forward_.run({{DNNL_ARG_SRC, forward_x_.load(x)},
                  {DNNL_ARG_WEIGHTS, forward_weight_.loaded(weight_)},
                  {DNNL_ARG_BIAS, bias_},
                  {DNNL_ARG_DST, y}});
  }

  void backward_input(const void*, const void*, const void* dy, void* dx) override {
    input_.run({{DNNL_ARG_DIFF_DST, input_dy_.load(dy)},
                {DNNL_ARG_WEIGHTS, input_weight_.loaded(weight_)},
                {DNNL_ARG_DIFF_SRC, input_dx_.target(dx)}});
    input_dx_.store(dx);
  }

  void backward_weights(const void* x, const void* dy, Pointers gradients) override {
    weights_.run({{DNNL_ARG_SRC, weights_x_.load(x)},
                  {DNNL_ARG_DIFF_DST, weights_dy_.load(dy)},
                  {DNNL_ARG_DIFF_WEIGHTS, weights_dw_.target(gradients[0])},
                  {DNNL_ARG_DIFF_BIAS, has_bias_ ? gradients[1] : nullptr}});
    weights_dw_.store(gradients[0]);
  }

 private:
  Conv2dLayer(Context& context, const Conv2d& spec, const ActivationFormat& input, const Descriptors& pd)
      : output_(format_of(output_shape(spec, input.shape), input.type, pd.forward.dst_desc())), has_bias_(spec.bias) {
    auto x = desc_of(input), y = pd.forward.dst_desc(), w = dense_desc(weight_shape(spec, input.shape));
    forward_x_ = {context, x, pd.forward.src_desc()};
    forward_weight_ = {context, w, pd.forward.weights_desc()};
    forward_ = {context,
                dnnl::convolution_forward(pd.forward),
                pd.forward.scratchpad_desc(),
                {{DNNL_ARG_SRC, pd.forward.src_desc()},
                 {DNNL_ARG_WEIGHTS, pd.forward.weights_desc()},
                 {DNNL_ARG_BIAS, pd.forward.bias_desc()},
                 {DNNL_ARG_DST, y}}};

    input_dy_ = {context, y, pd.input.diff_dst_desc()};
    input_weight_ = {context, w, pd.input.weights_desc()};
    input_dx_ = {context, x, pd.input.diff_src_desc()};
    input_ = {context,
              dnnl::convolution_backward_data(pd.input),
              pd.input.scratchpad_desc(),
              {{DNNL_ARG_DIFF_DST, pd.input.diff_dst_desc()},
               {DNNL_ARG_WEIGHTS, pd.input.weights_desc()},
               {DNNL_ARG_DIFF_SRC, pd.input.diff_src_desc()}}};

    weights_x_ = {context, x, pd.weights.src_desc()};
    weights_dy_ = {context, y, pd.weights.diff_dst_desc()};
    weights_dw_ = {context, w, pd.weights.diff_weights_desc()};
    weights_ = {context,
                dnnl::convolution_backward_weights(pd.weights),
                pd.weights.scratchpad_desc(),
                {{DNNL_ARG_SRC, pd.weights.src_desc()},
                 {DNNL_ARG_DIFF_DST, pd.weights.diff_dst_desc()},
                 {DNNL_ARG_DIFF_WEIGHTS, pd.weights.diff_weights_desc()},
                 {DNNL_ARG_DIFF_BIAS, pd.weights.diff_bias_desc()}}};
  }

  ActivationFormat output_;
  bool has_bias_;
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
  Operation forward_, input_, weights_;
  Operand forward_x_, forward_weight_;
  Operand input_dy_, input_weight_, input_dx_;
  Operand weights_x_, weights_dy_, weights_dw_;
};
}  // namespace

std::unique_ptr<Layer> make_layer(Context& context, const Conv2d& spec, const ActivationFormat& input) {
  if (auto layer = winograd::make_conv2d(context, spec, input)) return layer;
  return std::make_unique<Conv2dLayer>(context, spec, input);
}

}  // namespace distdl::kernels::onednn
