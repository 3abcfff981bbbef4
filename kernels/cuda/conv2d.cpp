// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <distdl/kernels/cuda/channels.hpp>
#include <distdl/kernels/cuda/cuda_error.hpp>
#include <distdl/kernels/cuda/layers.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr float kOne = 1, kZero = 0;
// Fixed, not found by timing or heuristics, so that every run computes the same bits. All three are deterministic, take
// every shape, and add up like a matrix product (Winograd's and FFT's rounding errors are larger).
constexpr auto kForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr auto kBackwardInput = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr auto kBackwardWeights = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

class Conv2dLayer : public Layer {
 public:
  Conv2dLayer(SharedDevice device, const Conv2d& spec, const tensor::Shape& input)
      : device_(std::move(device)),
        spec_(spec),
        output_(dense(output_shape(spec, input))),
        x_(make_tensor(input)),
        y_(make_tensor(output_.shape)),
        filter_(make_filter({spec.out, input[1] / spec.groups, spec.kernel, spec.kernel})),
        convolution_(make_convolution(spec)),
        outputs_(channels_of(output_.shape)) {
    device_->reserve_scratch(largest_workspace());
  }

  const ActivationFormat& output() const override { return output_; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = spec_.bias ? parameters[1] : nullptr;
  }

  void forward(const float* x, float* y, Phase) override {
    check(cudnnConvolutionForward(device_->dnn(), &kOne, x_.get(), x, filter_.get(), weight_, convolution_.get(),
                                  kForward, device_->scratch(), device_->scratch_bytes(), &kZero, y_.get(), y),
          "run a convolution forward");
    if (spec_.bias) add_bias(*device_, outputs_, bias_, y);
  }

  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    check(cudnnConvolutionBackwardData(device_->dnn(), &kOne, filter_.get(), weight_, y_.get(), dy, convolution_.get(),
                                       kBackwardInput, device_->scratch(), device_->scratch_bytes(), &kZero, x_.get(),
                                       dx),
          "run a convolution backward to its input");
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    check(cudnnConvolutionBackwardFilter(device_->dnn(), &kOne, x_.get(), x, y_.get(), dy, convolution_.get(),
                                         kBackwardWeights, device_->scratch(), device_->scratch_bytes(), &kZero,
                                         filter_.get(), gradients[0]),
          "run a convolution backward to its weights");
    if (spec_.bias) sum_channels(*device_, outputs_, dy, gradients[1]);
  }

 private:
  std::size_t largest_workspace() const {
    std::size_t forward = 0, backward_input = 0, backward_weights = 0;
    check(cudnnGetConvolutionForwardWorkspaceSize(device_->dnn(), x_.get(), filter_.get(), convolution_.get(), y_.get(),
                                                  kForward, &forward),
          "plan a convolution forward");
    check(cudnnGetConvolutionBackwardDataWorkspaceSize(device_->dnn(), filter_.get(), y_.get(), convolution_.get(),
                                                       x_.get(), kBackwardInput, &backward_input),
          "plan a convolution backward to its input");
    check(cudnnGetConvolutionBackwardFilterWorkspaceSize(device_->dnn(), x_.get(), y_.get(), convolution_.get(),
                                                         filter_.get(), kBackwardWeights, &backward_weights),
          "plan a convolution backward to its weights");
    return std::max({forward, backward_input, backward_weights});
  }

  SharedDevice device_;
  Conv2d spec_;
  ActivationFormat output_;
  TensorDescriptor x_;
  TensorDescriptor y_;
  FilterDescriptor filter_;
  ConvolutionDescriptor convolution_;
  Channels outputs_;
  const float* weight_ = nullptr;  // (out, C / groups, kernel, kernel)
  const float* bias_ = nullptr;    // (out)
};
}  // namespace

std::unique_ptr<Layer> make_conv2d(SharedDevice device, const Conv2d& spec, const tensor::Shape& input) {
  return std::make_unique<Conv2dLayer>(std::move(device), spec, input);
}

}  // namespace distdl::kernels::cuda
