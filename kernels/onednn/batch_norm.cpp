// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>

namespace distdl::kernels::onednn {
namespace {
using dnnl::memory;
using dnnl::normalization_flags;
using dnnl::prop_kind;
const auto kFlags = normalization_flags::use_scale | normalization_flags::use_shift;

class BatchNormLayer : public Layer {
 public:
  BatchNormLayer(Context& context, const BatchNorm& spec, const ActivationFormat& input)
      : output_(input),
        channels_(input.shape[1]),
        values_(tensor::element_count(input.shape) / channels_),
        mean_(tensor::allocate_host(channels_ * sizeof(float))),
        variance_(tensor::allocate_host(channels_ * sizeof(float))),
        gradients_(tensor::allocate_host(2 * channels_ * sizeof(float))) {
    auto x = desc_of(input);
    train_ = make_forward(context, forward(context, prop_kind::forward_training, x, spec.epsilon, kFlags));
    evaluate_ = make_forward(context, forward(context, prop_kind::forward_inference, x, spec.epsilon,
                                              kFlags | normalization_flags::use_global_stats));
    dnnl::batch_normalization_backward::primitive_desc pd(
        {prop_kind::backward, x, x, spec.epsilon, kFlags}, attributes(), context.engine(),
        forward(context, prop_kind::forward_training, x, spec.epsilon, kFlags));
    auto c = dense_desc({channels_});
    backward_ = {context,
                 dnnl::batch_normalization_backward(pd),
                 pd.scratchpad_desc(),
                 {{DNNL_ARG_SRC, x},
                  {DNNL_ARG_DIFF_DST, x},
                  {DNNL_ARG_DIFF_SRC, x},
                  {DNNL_ARG_MEAN, c},
                  {DNNL_ARG_VARIANCE, c},
                  {DNNL_ARG_SCALE, c},
                  {DNNL_ARG_SHIFT, c},
                  {DNNL_ARG_DIFF_SCALE, c},
                  {DNNL_ARG_DIFF_SHIFT, c}}};
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = parameters[1];
    running_mean_ = parameters[2];
    running_variance_ = parameters[3];
  }

  void forward(const void* x, void* y, Phase phase) override {
    const bool training = phase == Phase::training;
    gradients_of_ = nullptr;
    (training ? train_ : evaluate_)
        .run({{DNNL_ARG_SRC, x},
              {DNNL_ARG_DST, y},
              {DNNL_ARG_SCALE, weight_},
              {DNNL_ARG_SHIFT, bias_},
              {DNNL_ARG_MEAN, training ? floats(mean_) : running_mean_},
              {DNNL_ARG_VARIANCE, training ? floats(variance_) : running_variance_}});
  }

  void backward_input(const void* x, const void*, const void* dy, void* dx) override { backward(x, dy, dx); }

  void backward_weights(const void* x, const void* dy, Pointers gradients) override {
    if (gradients_of_ != dy) {
      if (unwanted_dx_.bytes() == 0) unwanted_dx_ = tensor::allocate_host(output_.bytes);
      backward(x, dy, unwanted_dx_.data());
    }
    std::copy_n(floats(gradients_), channels_, gradients[0]);
    std::copy_n(floats(gradients_) + channels_, channels_, gradients[1]);
    float unbiased = values_ > 1 ? static_cast<float>(values_) / static_cast<float>(values_ - 1) : 1.0f;
    for (std::int64_t c = 0; c < channels_; ++c) {
      gradients[2][c] = floats(mean_)[c];
      gradients[3][c] = floats(variance_)[c] * unbiased;
    }
  }

 private:
  using ForwardDescriptor = dnnl::batch_normalization_forward::primitive_desc;

  static float* floats(const tensor::Buffer& buffer) { return static_cast<float*>(buffer.data()); }

  static ForwardDescriptor forward(const Context& context, prop_kind kind, const memory::desc& x, float epsilon,
                                   normalization_flags flags) {
    return {{kind, x, epsilon, flags}, attributes(), context.engine()};
  }

  Operation make_forward(Context& context, const ForwardDescriptor& pd) const {
    auto c = dense_desc({channels_});
    return {context,
            dnnl::batch_normalization_forward(pd),
            pd.scratchpad_desc(),
            {{DNNL_ARG_SRC, pd.src_desc()},
             {DNNL_ARG_DST, pd.dst_desc()},
             {DNNL_ARG_SCALE, c},
             {DNNL_ARG_SHIFT, c},
             {DNNL_ARG_MEAN, c},
             {DNNL_ARG_VARIANCE, c}}};
  }

  void backward(const void* x, const void* dy, void* dx) {
    backward_.run({{DNNL_ARG_SRC, x},
                   {DNNL_ARG_DIFF_DST, dy},
                   {DNNL_ARG_DIFF_SRC, dx},
                   {DNNL_ARG_MEAN, mean_.data()},
                   {DNNL_ARG_VARIANCE, variance_.data()},
                   {DNNL_ARG_SCALE, weight_},
                   {DNNL_ARG_SHIFT, bias_},
                   {DNNL_ARG_DIFF_SCALE, floats(gradients_)},
                   {DNNL_ARG_DIFF_SHIFT, floats(gradients_) + channels_}});
    gradients_of_ = dy;
  }

  ActivationFormat output_;
  std::int64_t channels_, values_;  // values of one channel: N * H * W
  tensor::Buffer mean_, variance_;  // of the last training forward
  // oneDNN computes all gradients at once: those of the parameters are kept from backward_input() for
  // backward_weights(). Only where that comes first, dx is computed in vain.
  tensor::Buffer gradients_, unwanted_dx_;
  const void* gradients_of_ = nullptr;  // dy of gradients_
  Operation train_, evaluate_, backward_;
  const float *weight_ = nullptr, *bias_ = nullptr, *running_mean_ = nullptr, *running_variance_ = nullptr;
};
}  // namespace

std::unique_ptr<Layer> make_batch_norm(Context& context, const BatchNorm& spec, const ActivationFormat& input) {
  return std::make_unique<BatchNormLayer>(context, spec, input);
}

}  // namespace distdl::kernels::onednn
