// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/cuda/adapted.hpp>
#include <distdl/kernels/cuda/channels.hpp>
#include <distdl/kernels/cuda/cuda_error.hpp>
#include <distdl/kernels/cuda/image_layout.hpp>
#include <distdl/kernels/cuda/layers.hpp>
#include <distdl/kernels/cuda/short_copy.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr float kOne = 1, kZero = 0;
// Fixed, not found by timing or heuristics, so that every run computes the same bits. All three are deterministic, take
// every shape, and add up like a matrix product (Winograd's and FFT's rounding errors are larger).
constexpr auto kForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr auto kBackwardInput = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr auto kBackwardWeights = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

/// What a convolution is to cuDNN.
struct Convolution {
  Convolution(const Conv2d& spec, const ActivationFormat& input, const ActivationFormat& output)
      : x(make_tensor(input.shape, input.type)),
        y(make_tensor(output.shape, input.type)),
        bias(make_tensor({1, spec.out, 1, 1}, input.type)),
        filter(make_filter({spec.out, input.shape[1] / spec.groups, spec.kernel, spec.kernel}, input.type)),
        no_activation(make_no_activation()) {}

  /// False where cuDNN has no way for these extents and this type.
  bool plan(const Device& device, const Conv2d& spec, tensor::DataType type) {
    const cudnnMathType_t math = convolution_math(type, device.allows_tf32());
    forward = backward_input = backward_weights = make_way(spec, math);
    if (type != tensor::DataType::float32 && !choose_math(device, spec)) return false;
    return has_workspaces(device);
  }
  std::size_t workspace() const { return std::max({bytes[0], bytes[1], bytes[2]}); }

  TensorDescriptor x, y, bias;
  FilterDescriptor filter;
  ActivationDescriptor no_activation;
  std::shared_ptr<const ConvolutionDescriptor> forward, backward_input, backward_weights;
  std::array<std::size_t, 3> bytes{};

 private:
  static std::shared_ptr<const ConvolutionDescriptor> make_way(const Conv2d& spec, cudnnMathType_t math) {
    return std::make_shared<const ConvolutionDescriptor>(make_convolution(spec, math));
  }

  /// The arithmetic in which cuDNN says that it has an algorithm: another one may be refused, or worse.
  template <class Performance, class Algorithm, class Ask>
  static std::optional<cudnnMathType_t> math_of(Algorithm algorithm, const Ask& ask) {
    std::array<Performance, 16> found{};
    int count = 0;
    if (!is_supported(ask(static_cast<int>(found.size()), &count, found.data()), "ask for convolutions"))
      return std::nullopt;
    for (int i = 0; i < count; ++i)
      if (found[i].algo == algorithm && found[i].status == CUDNN_STATUS_SUCCESS) return found[i].mathType;
    return std::nullopt;
  }

  bool choose_math(const Device& device, const Conv2d& spec) {
    const auto of_forward = math_of<cudnnConvolutionFwdAlgoPerf_t>(kForward, [&](auto... results) {
      return cudnnGetConvolutionForwardAlgorithm_v7(device.dnn(), x.get(), filter.get(), forward->get(), y.get(),
                                                    results...);
    });
    const auto of_input = math_of<cudnnConvolutionBwdDataAlgoPerf_t>(kBackwardInput, [&](auto... results) {
      return cudnnGetConvolutionBackwardDataAlgorithm_v7(device.dnn(), filter.get(), y.get(), backward_input->get(),
                                                         x.get(), results...);
    });
    const auto of_weights = math_of<cudnnConvolutionBwdFilterAlgoPerf_t>(kBackwardWeights, [&](auto... results) {
      return cudnnGetConvolutionBackwardFilterAlgorithm_v7(device.dnn(), x.get(), y.get(), backward_weights->get(),
                                                           filter.get(), results...);
    });
    if (!of_forward || !of_input || !of_weights) return false;
    forward = make_way(spec, *of_forward);
    backward_input = make_way(spec, *of_input);
    backward_weights = make_way(spec, *of_weights);
    return true;
  }

  bool has_workspaces(const Device& device) {
    return is_supported(cudnnGetConvolutionForwardWorkspaceSize(device.dnn(), x.get(), filter.get(), forward->get(),
                                                                y.get(), kForward, bytes.data()),
                        "plan a convolution forward") &&
           is_supported(
               cudnnGetConvolutionBackwardDataWorkspaceSize(device.dnn(), filter.get(), y.get(), backward_input->get(),
                                                            x.get(), kBackwardInput, &bytes[1]),
               "plan a convolution backward to its input") &&
           is_supported(
               cudnnGetConvolutionBackwardFilterWorkspaceSize(device.dnn(), x.get(), y.get(), backward_weights->get(),
                                                              filter.get(), kBackwardWeights, &bytes[2]),
               "plan a convolution backward to its weights");
  }
};

/// Floats as (N, C, H, W), 16 bits as (N, H, W, C).
template <class T>
class Conv2dLayer : public LayerOf<T> {
 public:
  Conv2dLayer(SharedDevice device, const Conv2d& spec, const ActivationFormat& input, ActivationFormat output,
              Convolution convolution)
      : device_(std::move(device)),
        output_(std::move(output)),
        has_bias_(spec.bias),
        in_(input.shape[1] / spec.groups),
        pixels_(spec.kernel * spec.kernel),
        dnn_(std::move(convolution)),
        weight_(*device_, weights(), in_, pixels_),
        bias_(*device_, spec.bias ? spec.out : 0),
        outputs_(channels_of(output_)) {
    device_->reserve_scratch(dnn_.workspace());
    if (outputs_.is_last && spec.bias) device_->reserve_scratch(column_scratch<SumOfRows<T>>(columns_of(outputs_)));
    if (kIsShort) gradient_ = device_->allocate(sizeof(T) * static_cast<std::size_t>(weights()));
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }

  void load_parameters(ConstPointers parameters) override {
    weight_.load(*device_, parameters[0]);
    if (has_bias_) bias_.load(*device_, parameters[1]);
  }

  void forward(const T* x, T* y, Phase) override {
    if (has_bias_ && forward_with_bias(x, y)) return;
    check(cudnnConvolutionForward(device_->dnn(), &kOne, dnn_.x.get(), x, dnn_.filter.get(), weight_.get(),
                                  dnn_.forward->get(), kForward, device_->scratch(), device_->scratch_bytes(), &kZero,
                                  dnn_.y.get(), y),
          "run a convolution forward");
    if (has_bias_) add_bias(*device_, outputs_, bias_.parameter(), y);
  }

  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    check(cudnnConvolutionBackwardData(device_->dnn(), &kOne, dnn_.filter.get(), weight_.get(), dnn_.y.get(), dy,
                                       dnn_.backward_input->get(), kBackwardInput, device_->scratch(),
                                       device_->scratch_bytes(), &kZero, dnn_.x.get(), dx),
          "run a convolution backward to its input");
  }

  /// In 16 bits cuDNN rounds the gradient to them.
  void backward_weights(const T* x, const T* dy, Pointers gradients) override {
    void* const to = kIsShort ? gradient_.data() : gradients[0];
    check(cudnnConvolutionBackwardFilter(device_->dnn(), &kOne, dnn_.x.get(), x, dnn_.y.get(), dy,
                                         dnn_.backward_weights->get(), kBackwardWeights, device_->scratch(),
                                         device_->scratch_bytes(), &kZero, dnn_.filter.get(), to),
          "run a convolution backward to its weights");
    if (kIsShort)
      swap_axes(*device_, tensor::data_type_of<T>(), to, tensor::DataType::float32, gradients[0],
                static_cast<std::size_t>(weights()), pixels_, in_);
    if (has_bias_) sum_channels(*device_, outputs_, dy, gradients[1]);
  }

 private:
  static constexpr bool kIsShort = !std::is_same_v<T, float>;
  std::int64_t weights() const { return output_.shape[1] * in_ * pixels_; }

  /// False where cuDNN cannot.
  bool forward_with_bias(const T* x, T* y) {
    if (!fuses_) return false;
    fuses_ = is_supported(cudnnConvolutionBiasActivationForward(
                              device_->dnn(), &kOne, dnn_.x.get(), x, dnn_.filter.get(), weight_.get(),
                              dnn_.forward->get(), kForward, device_->scratch(), device_->scratch_bytes(), &kZero,
                              dnn_.y.get(), y, dnn_.bias.get(), bias_.get(), dnn_.no_activation.get(), dnn_.y.get(), y),
                          "run a convolution with a bias");
    return fuses_;
  }

  SharedDevice device_;
  ActivationFormat output_;
  bool has_bias_;
  bool fuses_ = true;  // until cuDNN says that it cannot
  std::int64_t in_;    // channels of a group
  std::int64_t pixels_;
  Convolution dnn_;
  ShortCopy<T> weight_;      // (out, C / groups, kernel, kernel); the copy: (out, kernel, kernel, C / groups)
  ShortCopy<T> bias_;        // (out)
  tensor::Buffer gradient_;  // as the copy
  Channels outputs_;
};

/// nullptr: cuDNN has no way.
template <class T>
std::unique_ptr<Layer> make_for(const SharedDevice& device, const Conv2d& spec, const ActivationFormat& input) {
  const ActivationFormat output = like(input, output_shape(spec, input.shape));
  Convolution convolution(spec, input, output);
  if (!convolution.plan(*device, spec, input.type)) return nullptr;
  return std::make_unique<Conv2dLayer<T>>(device, spec, input, output, std::move(convolution));
}
}  // namespace

std::unique_ptr<Layer> make_conv2d(SharedDevice device, const Conv2d& spec, const ActivationFormat& input) {
  const auto of_floats = [&] {
    auto layer = make_for<float>(device, spec, dense(input.shape));
    require(layer != nullptr, "cuDNN has no convolution for an input of shape {}; kernels.backend = \"onednn\" has one",
            tensor::to_string(input.shape));
    return layer;
  };
  if (input.type == tensor::DataType::float32) return of_floats();
  const ActivationFormat wanted = channels_last(input.shape, input.type);
  auto layer = input.type == tensor::DataType::bfloat16 ? make_for<tensor::Bfloat16>(device, spec, wanted)
                                                        : make_for<tensor::Float16>(device, spec, wanted);
  const ActivationFormat output = channels_last(output_shape(spec, input.shape), input.type);
  if (!layer) return adapted(device, of_floats(), dense(input.shape), input, output);
  return adapted(device, std::move(layer), wanted, input, output);
}

}  // namespace distdl::kernels::cuda
