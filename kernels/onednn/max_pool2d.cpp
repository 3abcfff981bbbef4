// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>

namespace distdl::kernels::onednn {
namespace {
using dnnl::memory;
constexpr auto kAlgorithm = dnnl::algorithm::pooling_max;

class MaxPool2dLayer : public Layer {
 public:
  MaxPool2dLayer(Context& context, const MaxPool2d& spec, const ActivationFormat& input) {
    memory::dims stride(2, spec.stride), kernel(2, spec.kernel), padding(2, 0);
    auto x = desc_of(input), y = any_desc(output_shape(spec, input.shape));
    dnnl::pooling_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kAlgorithm, x, y, stride, kernel, padding, padding}, attributes(),
        context.engine());
    y = forward.dst_desc();
    dnnl::pooling_backward::primitive_desc backward({kAlgorithm, x, y, stride, kernel, padding, padding}, attributes(),
                                                    context.engine(), forward);
    output_ = format_of(y.dims(), y);
    workspace_ = tensor::allocate_host(forward.workspace_desc().get_size());
    forward_ = {context,
                dnnl::pooling_forward(forward),
                forward.scratchpad_desc(),
                {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, forward.workspace_desc()}}};
    backward_ = {context,
                 dnnl::pooling_backward(backward),
                 backward.scratchpad_desc(),
                 {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_DIFF_SRC, x}, {DNNL_ARG_WORKSPACE, forward.workspace_desc()}}};
  }

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers) override {}

  void forward(const float* x, float* y, Phase) override {
    forward_.run({{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, workspace_.data()}});
  }

  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    backward_.run({{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}, {DNNL_ARG_WORKSPACE, workspace_.data()}});
  }

  void backward_weights(const float*, const float*, Pointers) override {}

 private:
  ActivationFormat output_;
  tensor::Buffer workspace_;  // where each window's largest value was
  Operation forward_, backward_;
};
}  // namespace

std::unique_ptr<Layer> make_max_pool2d(Context& context, const MaxPool2d& spec, const ActivationFormat& input) {
  return std::make_unique<MaxPool2dLayer>(context, spec, input);
}

}  // namespace distdl::kernels::onednn
