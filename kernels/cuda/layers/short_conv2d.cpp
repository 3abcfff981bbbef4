// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/layers/convolution_plans.hpp>
#include <distdl/kernels/cuda/layers/image_layout.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/primitives/channels.hpp>
#include <distdl/kernels/cuda/primitives/low_precision_copy.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

DnnView::Four four(const tensor::Shape& shape) {
  return {shape[0], shape[1], shape[2], shape[3]};
}

/// Images as (N, H, W, C).
template <class T>
class ShortConv2dLayer : public LayerOf<T> {
 public:
  ShortConv2dLayer(SharedDevice device, const Conv2d& spec, const ActivationFormat& input,
                   std::shared_ptr<const ConvolutionPlans> plans)
      : device_(std::move(device)),
        plans_(std::move(plans)),
        output_(like(input, output_shape(spec, input.shape))),
        in_(input.shape[1] / spec.groups),
        pixels_(spec.kernel * spec.kernel),
        has_bias_(spec.bias),
        weight_(*device_, weights(), in_, pixels_),
        gradient_(device_->allocate(sizeof(T) * static_cast<std::size_t>(weights()))),
        outputs_(channels_of(output_)) {
    device_->reserve_scratch(plans_->workspace_bytes());
    if (has_bias_) device_->reserve_scratch(column_scratch<SumOfRows<T>>(columns_of(outputs_)));
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }

  void load_parameters(ConstPointers parameters) override {
    weight_.load(*device_, parameters[0]);
    if (has_bias_) bias_ = parameters[1];
  }

  void forward(const T* x, T* y, Phase) override {
    plans_->forward(device_->dnn(), x, weight_.get(), y, device_->scratch());
    if (has_bias_) add_bias(*device_, outputs_, bias_, y);
  }
  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    plans_->backward_input(device_->dnn(), dy, weight_.get(), dx, device_->scratch());
  }
  /// cuDNN rounds the gradient to 16 bits: it has no engine that writes floats.
  void backward_weights(const T* x, const T* dy, Pointers gradients) override {
    plans_->backward_weights(device_->dnn(), x, dy, gradient_.data(), device_->scratch());
    swap_axes(*device_, tensor::data_type_of<T>(), gradient_.data(), tensor::DataType::float32, gradients[0],
              static_cast<std::size_t>(weights()), pixels_, in_);
    if (has_bias_) sum_channels(*device_, outputs_, dy, gradients[1]);
  }

 private:
  std::int64_t weights() const { return output_.shape[1] * in_ * pixels_; }

  SharedDevice device_;
  std::shared_ptr<const ConvolutionPlans> plans_;
  ActivationFormat output_;
  std::int64_t in_;  // channels of a group
  std::int64_t pixels_;
  bool has_bias_;
  ShortCopy<T> weight_;      // (out, C / groups, kernel, kernel); the copy: (out, kernel, kernel, C / groups)
  tensor::Buffer gradient_;  // as the copy
  const float* bias_ = nullptr;
  Channels outputs_;
};
}  // namespace

std::unique_ptr<Layer> make_short_conv2d(SharedDevice device, const Conv2d& spec, const ActivationFormat& input) {
  const ConvolutionExtents of{four(input.shape),
                              {spec.out, input.shape[1] / spec.groups, spec.kernel, spec.kernel},
                              four(output_shape(spec, input.shape)),
                              {spec.padding, spec.stride, spec.dilation}};
  const std::vector<std::int64_t> key{of.input[0],
                                      of.input[1],
                                      of.input[2],
                                      of.input[3],
                                      spec.out,
                                      spec.groups,
                                      spec.kernel,
                                      spec.padding,
                                      spec.stride,
                                      spec.dilation,
                                      static_cast<std::int64_t>(input.type)};
  std::unique_ptr<Layer> layer;
  const bool fits = fits_in_memory([&] {
    auto plans = device->convolution_plans().get(key, [&] {
      return ConvolutionPlans(of, input.type, {device->dnn(), nullptr}, {kMostWorkspace, device->is_deterministic()});
    });
    if (!plans) return;
    if (input.type == tensor::DataType::bfloat16)
      layer = std::make_unique<ShortConv2dLayer<tensor::Bfloat16>>(device, spec, input, std::move(plans));
    else
      layer = std::make_unique<ShortConv2dLayer<tensor::Float16>>(device, spec, input, std::move(plans));
  });
  return fits ? std::move(layer) : nullptr;
}

}  // namespace distdl::kernels::cuda
