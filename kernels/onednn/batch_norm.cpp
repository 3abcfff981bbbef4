// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <distdl/kernels/onednn/layers.hpp>
#include <distdl/kernels/onednn/operation.hpp>
#include <distdl/kernels/onednn/versions.hpp>

namespace distdl::kernels::onednn {
namespace {
using dnnl::normalization_flags;
using dnnl::prop_kind;

class BatchNormLayer : public Layer {
 public:
  BatchNormLayer(Context& context, const BatchNorm& spec, const ActivationFormat& input)
      : context_(context),
        epsilon_(spec.epsilon),
        output_(input),
        channels_(input.shape[1]),
        values_(tensor::element_count(input.shape) / channels_),
        mean_(tensor::allocate_host(channels_ * sizeof(float))),
        variance_(tensor::allocate_host(channels_ * sizeof(float))),
        gradients_(tensor::allocate_host(2 * channels_ * sizeof(float))) {
    plan(normalization_flags::none);
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
    run_forward(training ? train_ : evaluate_, x, y, training);
  }

  Fusion fuse(const LayerSpec& next, bool in_place) override {
    if (!in_place || !std::holds_alternative<Relu>(next)) return Fusion::none;
    plan(normalization_flags::fuse_norm_relu);
    return Fusion::whole;
  }

  /// oneDNN's fused ReLU makes 0 of a NaN. In training, one in x is one in the statistics; else it is not fused.
  void forward_fused(const void* x, void* y, void* /*next_y*/, Phase phase) override {
    const bool training = phase == Phase::training;
    if (training) forward(x, y, phase);
    const auto is_sound = [&](const float* values) {
      return std::all_of(values, values + channels_, [](float value) { return std::isfinite(value); });
    };
    if (training && is_sound(weight_) && is_sound(bias_) && is_sound(floats(mean_)) && is_sound(floats(variance_)))
      return;
    run_forward(evaluate_, x, y, training);
    relu_in_place(output_, y);
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
  static float* floats(const tensor::Buffer& buffer) { return static_cast<float*>(buffer.data()); }

  void run_forward(Operation& operation, const void* x, void* y, bool with_batch) {
    operation.run({{DNNL_ARG_SRC, x},
                   {DNNL_ARG_DST, y},
                   {DNNL_ARG_SCALE, weight_},
                   {DNNL_ARG_SHIFT, bias_},
                   {DNNL_ARG_MEAN, with_batch ? floats(mean_) : running_mean_},
                   {DNNL_ARG_VARIANCE, with_batch ? floats(variance_) : running_variance_},
                   {DNNL_ARG_WORKSPACE, signs_.data()}});
  }

  /// `more` is for training.
  void plan(normalization_flags more) {
    const auto x = desc_of(output_), c = dense_desc({channels_});
    const auto operation = [&](const auto& pd) {
      return Operation(context_, dnnl::batch_normalization_forward(pd), pd.scratchpad_desc(),
                       {{DNNL_ARG_SRC, x},
                        {DNNL_ARG_DST, x},
                        {DNNL_ARG_SCALE, c},
                        {DNNL_ARG_SHIFT, c},
                        {DNNL_ARG_MEAN, c},
                        {DNNL_ARG_VARIANCE, c},
                        {DNNL_ARG_WORKSPACE, pd.workspace_desc()}});
    };
    const auto flags = normalization_flags::use_scale | normalization_flags::use_shift;
    const auto training = describe_batch_norm(context_, prop_kind::forward_training, x, epsilon_, flags | more);
    signs_ = tensor::allocate_host(training.workspace_desc().get_size());
    train_ = operation(training);
    evaluate_ = operation(describe_batch_norm(context_, prop_kind::forward_inference, x, epsilon_,
                                              flags | normalization_flags::use_global_stats));
    const auto pd = describe_gradient(context_, training, x, epsilon_, flags | more);
    backward_ = {context_,
                 dnnl::batch_normalization_backward(pd),
                 pd.scratchpad_desc(),
                 {{DNNL_ARG_SRC, x},
                  {DNNL_ARG_DIFF_DST, x},
                  {DNNL_ARG_DIFF_SRC, x},
                  {DNNL_ARG_MEAN, c},
                  {DNNL_ARG_VARIANCE, c},
                  {DNNL_ARG_SCALE, c},
                  {kShiftOfGradient, c},
                  {DNNL_ARG_DIFF_SCALE, c},
                  {DNNL_ARG_DIFF_SHIFT, c},
                  {DNNL_ARG_WORKSPACE, pd.workspace_desc()}}};
  }

  void backward(const void* x, const void* dy, void* dx) {
    backward_.run({{DNNL_ARG_SRC, x},
                   {DNNL_ARG_DIFF_DST, dy},
                   {DNNL_ARG_DIFF_SRC, dx},
                   {DNNL_ARG_MEAN, mean_.data()},
                   {DNNL_ARG_VARIANCE, variance_.data()},
                   {DNNL_ARG_SCALE, weight_},
                   {kShiftOfGradient, bias_},
                   {DNNL_ARG_DIFF_SCALE, floats(gradients_)},
                   {DNNL_ARG_DIFF_SHIFT, floats(gradients_) + channels_},
                   {DNNL_ARG_WORKSPACE, signs_.data()}});
    gradients_of_ = dy;
  }

  Context& context_;
  float epsilon_;
  ActivationFormat output_;
  std::int64_t channels_, values_;  // values of one channel: N * H * W
  tensor::Buffer mean_, variance_;  // statistics of the last training forward
  // oneDNN computes all gradients together. Those of the parameters are kept from backward_input() for
  // backward_weights(). If the latter is called first, its dx is not used.
  tensor::Buffer gradients_, unwanted_dx_;
  tensor::Buffer signs_;                // where the fused ReLU let pass
  const void* gradients_of_ = nullptr;  // dy of gradients_
  Operation train_, evaluate_, backward_;
  const float *weight_ = nullptr, *bias_ = nullptr, *running_mean_ = nullptr, *running_variance_ = nullptr;
};
}  // namespace

std::unique_ptr<Layer> make_layer(Context& context, const BatchNorm& spec, const ActivationFormat& input) {
  return std::make_unique<BatchNormLayer>(context, spec, input);
}

}  // namespace distdl::kernels::onednn
