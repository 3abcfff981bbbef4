// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <distdl/base/errors.hpp>
#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/layers/adapted.hpp>
#include <distdl/kernels/cuda/layers/image_layout.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/primitives/channels.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr float kOne = 1, kZero = 0;

/// Most memory of cuDNN's fastest algorithms, where kernels.deterministic leaves it the choice.
constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

/// How cuDNN computes a convolution, or its way back to the input or the weights.
template <class Performance>
struct Way {
  decltype(Performance::algo) algorithm;
  std::shared_ptr<const ConvolutionDescriptor> convolution = nullptr;
  std::size_t workspace = 0;  ///< bytes
};

constexpr auto kForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;

/// Fixed, not found by timing or heuristics, so that every run computes the same bits. All three are deterministic,
/// take every shape, and add up like a matrix product (Winograd's and FFT's rounding errors are larger).
struct Ways {
  Way<cudnnConvolutionFwdAlgoPerf_t> forward{kForward};
  Way<cudnnConvolutionBwdDataAlgoPerf_t> backward_input{CUDNN_CONVOLUTION_BWD_DATA_ALGO_1};
  Way<cudnnConvolutionBwdFilterAlgoPerf_t> backward_weights{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1};
};

/// cuDNN's descriptors of a convolution.
struct Convolution {
  Convolution(const Conv2d& spec, const ActivationFormat& input, const ActivationFormat& output)
      : x(make_tensor(input.shape)),
        y(make_tensor(output.shape)),
        bias(make_tensor({1, spec.out, 1, 1})),
        filter(make_filter({spec.out, input.shape[1] / spec.groups, spec.kernel, spec.kernel})),
        no_activation(make_activation(CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN)),
        relu(make_activation(CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN)) {}

  /// False where cuDNN has no way for these extents.
  bool plan(const Device& device, const Conv2d& spec) {
    const cudnnMathType_t math = device.allows_tf32() ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    ways.forward.convolution = ways.backward_input.convolution = ways.backward_weights.convolution =
        make_shared_convolution(spec, math);
    const Ways fixed = ways;
    if (!device.is_deterministic() && choose_ways(device, spec, math) && has_workspaces(device)) return true;
    ways = fixed;
    return has_workspaces(device);
  }
  std::size_t workspace() const {
    return std::max({ways.forward.workspace, ways.backward_input.workspace, ways.backward_weights.workspace});
  }

  TensorDescriptor x, y, bias;
  FilterDescriptor filter;
  ActivationDescriptor no_activation, relu;
  Ways ways;

 private:
  static std::shared_ptr<const ConvolutionDescriptor> make_shared_convolution(const Conv2d& spec,
                                                                              cudnnMathType_t math) {
    return std::make_shared<const ConvolutionDescriptor>(make_convolution(spec, math));
  }

  /// Chooses the first wanted way in cuDNN's ranking, fastest first. Returns false if there is none.
  template <class Performance, class Ask>
  static bool choose_way(const Conv2d& spec, cudnnMathType_t math, Way<Performance>& way, const Ask& ask) {
    const auto is_wanted = [&](const Performance& found) {
      if (found.status != CUDNN_STATUS_SUCCESS) return false;
      const bool is_exact = math != CUDNN_FMA_MATH || found.mathType == CUDNN_FMA_MATH;
      return is_exact && found.memory <= kMostWorkspace;
    };
    std::array<Performance, 16> found{};
    int count = 0;
    if (!is_supported(ask(static_cast<int>(found.size()), &count, found.data()),
                      "get the algorithms for a convolution"))
      return false;
    const auto end = found.begin() + count, first = std::find_if(found.begin(), end, is_wanted);
    if (first == end) return false;
    way = {first->algo, make_shared_convolution(spec, first->mathType)};
    return true;
  }

  bool choose_ways(const Device& device, const Conv2d& spec, cudnnMathType_t math) {
    const auto convolution = ways.forward.convolution;
    return choose_way(spec, math, ways.forward,
                      [&](auto... results) {
                        return cudnnGetConvolutionForwardAlgorithm_v7(device.dnn(), x.get(), filter.get(),
                                                                      convolution->get(), y.get(), results...);
                      }) &&
           choose_way(spec, math, ways.backward_input,
                      [&](auto... results) {
                        return cudnnGetConvolutionBackwardDataAlgorithm_v7(device.dnn(), filter.get(), y.get(),
                                                                           convolution->get(), x.get(), results...);
                      }) &&
           choose_way(spec, math, ways.backward_weights, [&](auto... results) {
             return cudnnGetConvolutionBackwardFilterAlgorithm_v7(device.dnn(), x.get(), y.get(), convolution->get(),
                                                                  filter.get(), results...);
           });
  }

  bool has_workspaces(const Device& device) {
    return is_supported(cudnnGetConvolutionForwardWorkspaceSize(device.dnn(), x.get(), filter.get(),
                                                                ways.forward.convolution->get(), y.get(),
                                                                ways.forward.algorithm, &ways.forward.workspace),
                        "plan a convolution forward") &&
           is_supported(cudnnGetConvolutionBackwardDataWorkspaceSize(
                            device.dnn(), filter.get(), y.get(), ways.backward_input.convolution->get(), x.get(),
                            ways.backward_input.algorithm, &ways.backward_input.workspace),
                        "plan a convolution backward to its input") &&
           is_supported(cudnnGetConvolutionBackwardFilterWorkspaceSize(
                            device.dnn(), x.get(), y.get(), ways.backward_weights.convolution->get(), filter.get(),
                            ways.backward_weights.algorithm, &ways.backward_weights.workspace),
                        "plan a convolution backward to its weights");
  }
};

class Conv2dLayer : public LayerOf<float> {
 public:
  Conv2dLayer(SharedDevice device, const Conv2d& spec, ActivationFormat output, Convolution convolution)
      : device_(std::move(device)),
        output_(std::move(output)),
        has_bias_(spec.bias),
        fuses_bias_(spec.bias && convolution.ways.forward.algorithm == kForward),
        dnn_(std::move(convolution)),
        outputs_(channels_of(output_)) {
    device_->reserve_scratch(dnn_.workspace());
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }

  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    if (has_bias_) bias_ = parameters[1];
  }

  void forward(const float* x, float* y, Phase) override {
    if (fuses_bias_) fuses_bias_ = is_supported(forward_with_bias(x, bias_, dnn_.no_activation, y), kWithBias);
    if (fuses_bias_) return;
    check(cudnnConvolutionForward(device_->dnn(), &kOne, dnn_.x.get(), x, dnn_.filter.get(), weight_,
                                  dnn_.ways.forward.convolution->get(), dnn_.ways.forward.algorithm, device_->scratch(),
                                  device_->scratch_bytes(), &kZero, dnn_.y.get(), y),
          "run a convolution forward");
    if (has_bias_) add_bias(*device_, outputs_, bias_, y);
  }

  Fusion fuse(const LayerSpec& next, bool in_place) override {
    if (!in_place || !has_bias_ || !std::holds_alternative<Relu>(next)) return Fusion::none;
    relu_ = make_layer(device_, Relu{}, output_);
    return Fusion::forward;
  }

  /// By cuDNN, where its ReLU leaves a NaN what it is, of which its documents say nothing.
  void forward_fused(const void* x, void* y, void* /*next_y*/, Phase phase) override {
    if (!fuses_relu_) fuses_relu_ = keeps_nan(x, y);
    if (*fuses_relu_) return check(forward_with_bias(x, bias_, dnn_.relu, y), kWithBias);
    LayerOf<float>::forward(x, y, phase);
    relu_->forward(y, y, phase);
  }

  void backward_input(const float*, const float*, const float* dy, float* dx) override {
    check(cudnnConvolutionBackwardData(device_->dnn(), &kOne, dnn_.filter.get(), weight_, dnn_.y.get(), dy,
                                       dnn_.ways.backward_input.convolution->get(), dnn_.ways.backward_input.algorithm,
                                       device_->scratch(), device_->scratch_bytes(), &kZero, dnn_.x.get(), dx),
          "run a convolution backward to its input");
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    check(cudnnConvolutionBackwardFilter(device_->dnn(), &kOne, dnn_.x.get(), x, dnn_.y.get(), dy,
                                         dnn_.ways.backward_weights.convolution->get(),
                                         dnn_.ways.backward_weights.algorithm, device_->scratch(),
                                         device_->scratch_bytes(), &kZero, dnn_.filter.get(), gradients[0]),
          "run a convolution backward to its weights");
    if (has_bias_) sum_channels(*device_, outputs_, dy, gradients[1]);
  }

 private:
  static constexpr auto kWithBias = "run a convolution with a bias";

  cudnnStatus_t forward_with_bias(const void* x, const void* bias, const ActivationDescriptor& activation,
                                  void* y) const {
    return cudnnConvolutionBiasActivationForward(device_->dnn(), &kOne, dnn_.x.get(), x, dnn_.filter.get(), weight_,
                                                 dnn_.ways.forward.convolution->get(), dnn_.ways.forward.algorithm,
                                                 device_->scratch(), device_->scratch_bytes(), &kZero, dnn_.y.get(), y,
                                                 dnn_.bias.get(), bias, activation.get(), dnn_.y.get(), y);
  }

  /// Tried with a bias of NaN, of which nothing else may come.
  bool keeps_nan(const void* x, void* y) const {
    const tensor::Buffer bias = device_->allocate(sizeof(float) * static_cast<std::size_t>(output_.shape[1]));
    check(cudaMemsetAsync(bias.data(), 0xFF, bias.bytes(), device_->stream()), "write NaN");
    if (!is_supported(forward_with_bias(x, bias.data(), dnn_.relu, y), kWithBias)) return false;
    std::vector<float> values(static_cast<std::size_t>(output_.shape[1]));
    check(cudaMemcpyAsync(values.data(), y, bias.bytes(), cudaMemcpyDeviceToHost, device_->stream()),
          "copy from the GPU");
    check(cudaStreamSynchronize(device_->stream()), "try a convolution with ReLU");
    return std::all_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
  }

  SharedDevice device_;
  ActivationFormat output_;
  bool has_bias_;
  bool fuses_bias_;  // until cuDNN says that it cannot
  Convolution dnn_;
  const float* weight_ = nullptr;  // (out, C / groups, kernel, kernel)
  const float* bias_ = nullptr;    // (out)
  Channels outputs_;
  std::unique_ptr<Layer> relu_;     // after this layer, if it is to be computed
  std::optional<bool> fuses_relu_;  // by cuDNN; once it was tried
};

std::unique_ptr<Layer> make_of_floats(const SharedDevice& device, const Conv2d& spec, const tensor::Shape& input) {
  const ActivationFormat output = dense(output_shape(spec, input));
  Convolution convolution(spec, dense(input), output);
  require(convolution.plan(*device, spec),
          "cuDNN has no convolution for an input of shape {}; set kernels.backend = \"onednn\", which has one",
          tensor::to_string(input));
  return std::make_unique<Conv2dLayer>(device, spec, output, std::move(convolution));
}
}  // namespace

std::unique_ptr<Layer> make_layer(SharedDevice device, const Conv2d& spec, const ActivationFormat& input) {
  if (input.type == tensor::DataType::float32) return make_of_floats(device, spec, input.shape);
  const ActivationFormat wanted = channels_last(input.shape, input.type);
  const ActivationFormat output = channels_last(output_shape(spec, input.shape), input.type);
  if (auto layer = make_short_conv2d(device, spec, wanted))
    return adapted(device, std::move(layer), wanted, input, output);
  return adapted(device, make_of_floats(device, spec, input.shape), dense(input.shape), input, output);
}

}  // namespace distdl::kernels::cuda
