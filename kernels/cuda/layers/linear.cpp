// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/primitives/channels.hpp>
#include <distdl/kernels/cuda/primitives/low_precision_copy.hpp>
#include <distdl/kernels/cuda/primitives/product.hpp>

namespace distdl::kernels::cuda {
namespace {
template <class T>
class LinearLayer : public LayerOf<T> {
 public:
  LinearLayer(SharedDevice device, const Linear& spec, const ActivationFormat& input)
      : device_(std::move(device)),
        output_(dense(output_shape(spec, input.shape), input.type)),
        gemms_(gemms_of(spec, input.shape, output_.shape)),
        has_bias_(spec.bias),
        weight_(*device_, gemms_.in * gemms_.out),
        bias_(*device_, spec.bias ? gemms_.out : 0),
        forward_(*device_, gemms_.forward(), {kType, kType}, spec.bias ? Epilogue::bias : Epilogue::none),
        backward_input_(*device_, gemms_.backward_input(), {kType, kType}, Epilogue::none),
        // In fp32 the bias's gradient is summed in double.
        backward_weights_(*device_, gemms_.backward_weights(), {kType, tensor::DataType::float32},
                          spec.bias && kIsShort ? Epilogue::bias_gradient : Epilogue::none),
        outputs_{gemms_.rows, gemms_.out, 1, true} {
    if (spec.bias) device_->reserve_scratch(column_scratch<SumOfRows<T>>(columns_of(outputs_)));
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }

  void load_parameters(ConstPointers parameters) override {
    weight_.load(*device_, parameters[0]);
    if (has_bias_) bias_.load(*device_, parameters[1]);
  }

  void forward(const T* x, T* y, Phase) override {
    forward_.run(*device_, weight_.get(), x, y, bias_.get());
    if (has_bias_ && !forward_.fuses()) add_bias(*device_, outputs_, bias_.parameter(), y);
  }

  /// GELU by tanh, of 16 bits: the library does not say how exact its tanh is. Not ReLU: its own makes 0 of a NaN.
  Fusion fuse(const LayerSpec& next, bool in_place) override {
    const auto* gelu = std::get_if<Gelu>(&next);
    // The multiple of 8 is cuBLASLt's wish for y.
    if (in_place || !kIsShort || !has_bias_ || !gelu || !gelu->tanh || gemms_.out % 8 != 0) return Fusion::none;
    Product fused(*device_, gemms_.forward(), {kType, kType}, Epilogue::bias_gelu);
    if (!fused.fuses()) return Fusion::none;
    forward_ = std::move(fused);
    return Fusion::forward;
  }

  void forward_fused(const void* x, void* y, void* gelu, Phase) override {
    forward_.run(*device_, weight_.get(), x, gelu, bias_.get(), y);
  }

  void backward_input(const T*, const T*, const T* dy, T* dx) override {
    backward_input_.run(*device_, weight_.get(), dy, dx);
  }

  void backward_weights(const T* x, const T* dy, Pointers gradients) override {
    backward_weights_.run(*device_, x, dy, gradients[0], has_bias_ ? gradients[1] : nullptr);
    if (has_bias_ && !(kIsShort && backward_weights_.fuses())) sum_channels(*device_, outputs_, dy, gradients[1]);
  }

 private:
  static constexpr tensor::DataType kType = tensor::data_type_of<T>();
  static constexpr bool kIsShort = kType != tensor::DataType::float32;
  static LinearGemms gemms_of(const Linear& spec, const tensor::Shape& input, const tensor::Shape& output) {
    const std::int64_t rows = tensor::element_count(output) / spec.out;
    return {rows, tensor::element_count(input) / rows, spec.out};
  }

  SharedDevice device_;
  ActivationFormat output_;
  LinearGemms gemms_;
  bool has_bias_;
  ShortCopy<T> weight_;  // (out, in)
  ShortCopy<T> bias_;    // (out)
  Product forward_, backward_input_, backward_weights_;
  Channels outputs_;
};
}  // namespace

std::unique_ptr<Layer> make_layer(SharedDevice device, const Linear& spec, const ActivationFormat& input) {
  return make_of_type<LinearLayer>(input.type, device, spec, input);
}

}  // namespace distdl::kernels::cuda
