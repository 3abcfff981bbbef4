// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/host/rounding.hpp>
#include <distdl/kernels/host/vectors.hpp>
#include <distdl/tensor/half.hpp>

namespace distdl::kernels::host {
namespace {
float* floats(const tensor::Buffer& buffer) {
  return static_cast<float*>(buffer.data());
}

template <class T>
class RoundingLayer : public LayerOf<T> {
 public:
  RoundingLayer(std::unique_ptr<Layer> layer, const ActivationFormat& input, ActivationFormat output,
                FloatCopies& copies)
      : layer_(std::move(layer)), input_(input.elements()), output_(std::move(output)), copies_(copies) {
    reserve(copies_.x, input_), reserve(copies_.dx, input_);
    reserve(copies_.y, output_.elements()), reserve(copies_.dy, output_.elements());
  }

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { layer_->load_parameters(parameters); }

  bool backward_reads_output() const override { return layer_->backward_reads_output(); }
  std::size_t workspace() const override { return layer_->workspace(); }
  void use_workspace(void* memory) override { layer_->use_workspace(memory); }

  void forward(const T* x, T* y, Phase phase) override {
    widen(x, copies_.x, input_);
    layer_->forward(copies_.x.data(), copies_.y.data(), phase);
    round(copies_.y, y, output_.elements());
  }
  void backward_input(const T* x, const T* y, const T* dy, T* dx) override {
    widen(x, copies_.x, input_), widen(dy, copies_.dy, output_.elements());
    if (backward_reads_output()) widen(y, copies_.y, output_.elements());
    layer_->backward_input(copies_.x.data(), copies_.y.data(), copies_.dy.data(), copies_.dx.data());
    round(copies_.dx, dx, input_);
  }
  void backward_weights(const T* x, const T* dy, Pointers gradients) override {
    if (gradients.empty()) return;
    widen(x, copies_.x, input_), widen(dy, copies_.dy, output_.elements());
    layer_->backward_weights(copies_.x.data(), copies_.dy.data(), gradients);
  }

 private:
  static void reserve(tensor::Buffer& buffer, std::size_t count) {
    if (buffer.bytes() < count * sizeof(float)) buffer = tensor::allocate_host(count * sizeof(float));
  }
  static void widen(const T* __restrict from, const tensor::Buffer& copy, std::size_t count) {
    float* const __restrict to = floats(copy);
    vectorized([&] {
      for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
    });
  }
  static void round(const tensor::Buffer& copy, T* __restrict to, std::size_t count) {
    const float* const __restrict from = floats(copy);
    vectorized([&] {
      for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
    });
  }

  std::unique_ptr<Layer> layer_;
  std::size_t input_;
  ActivationFormat output_;
  FloatCopies& copies_;
};
}  // namespace

std::unique_ptr<Layer> make_rounding(std::unique_ptr<Layer> layer, const ActivationFormat& input,
                                     const ActivationFormat& output, FloatCopies& copies) {
  return tensor::with_type(output.type, [&](auto type) -> std::unique_ptr<Layer> {
    return std::make_unique<RoundingLayer<decltype(type)>>(std::move(layer), input, output, copies);
  });
}

}  // namespace distdl::kernels::host
