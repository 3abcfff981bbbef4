// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/onednn/layers.hpp>

namespace distdl::kernels::onednn {
namespace {
/// Sum of value(0) ... value(count - 1), in lanes, so that the compiler takes vectors.
template <class Value>
float sum_of(std::int64_t count, Value&& value) {
  constexpr std::int64_t kLanes = 16;
  std::array<float, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += value(i + lane);
  for (; i < count; ++i) lanes[i % kLanes] += value(i);
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  return lanes[0];
}

/// See reference/row_norms.cpp. What forward finds out of each row is kept for backward.
class RowNormLayer : public Layer {
 public:
  RowNormLayer(const tensor::Shape& input, float epsilon, bool centred)
      : output_(dense(input)),
        width_(input.back()),
        rows_(tensor::element_count(input) / width_),
        epsilon_(epsilon),
        centred_(centred),
        statistics_(static_cast<std::size_t>(rows_)) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = centred_ ? parameters[1] : nullptr;
  }

  void forward(const float* x, float* y, Phase) override {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const float* __restrict from = x + row * width_;
      float* __restrict to = y + row * width_;
      const auto [mean, inverse] = statistics_[row] = statistics_of(from);
      if (bias_)
        for (std::int64_t i = 0; i < width_; ++i) to[i] = (from[i] - mean) * inverse * weight_[i] + bias_[i];
      else
        for (std::int64_t i = 0; i < width_; ++i) to[i] = from[i] * inverse * weight_[i];
    }
  }

  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    const float parts = 1 / static_cast<float>(width_);
    for (std::int64_t row = 0; row < rows_; ++row) {
      const float* __restrict from = x + row * width_, * __restrict gradient = dy + row * width_;
      float* __restrict to = dx + row * width_;
      const auto [mean, inverse] = statistics_[row];
      const float sum = centred_ ? sum_of(width_, [&](auto i) { return gradient[i] * weight_[i]; }) * parts : 0;
      const float product =
          sum_of(width_, [&](auto i) { return gradient[i] * weight_[i] * (from[i] - mean) * inverse; }) * parts;
      for (std::int64_t i = 0; i < width_; ++i)
        to[i] = inverse * (gradient[i] * weight_[i] - sum - (from[i] - mean) * inverse * product);
    }
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    float* const __restrict weight = gradients[0];
    std::fill_n(weight, width_, 0.0f);
    if (centred_) std::fill_n(gradients[1], width_, 0.0f);
    for (std::int64_t row = 0; row < rows_; ++row) {
      const float* __restrict from = x + row * width_, * __restrict gradient = dy + row * width_;
      const auto [mean, inverse] = statistics_[row];
      for (std::int64_t i = 0; i < width_; ++i) weight[i] += gradient[i] * (from[i] - mean) * inverse;
      if (!centred_) continue;
      float* const __restrict bias = gradients[1];
      for (std::int64_t i = 0; i < width_; ++i) bias[i] += gradient[i];
    }
  }

 private:
  struct Statistics {
    float mean = 0, inverse = 0;  ///< inverse of the deviation
  };
  Statistics statistics_of(const float* row) const {
    const float parts = 1 / static_cast<float>(width_);
    const float mean = centred_ ? sum_of(width_, [&](auto i) { return row[i]; }) * parts : 0;
    const float squares = sum_of(width_, [&](auto i) { return (row[i] - mean) * (row[i] - mean); });
    return {mean, 1 / std::sqrt(squares * parts + epsilon_)};
  }

  ActivationFormat output_;
  std::int64_t width_, rows_;
  float epsilon_;
  bool centred_;
  std::vector<Statistics> statistics_;
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
};

class GatedSiluLayer : public Stateless {
 public:
  explicit GatedSiluLayer(const tensor::Shape& output) : Stateless(dense(output)), width_(output.back()) {}
  void forward(const float* x, float* y, Phase) override {
    for_each_row(x, y, [&](const float* gate, const float* value, float* to) {
      for (std::int64_t i = 0; i < width_; ++i) to[i] = elementwise::Silu{}(gate[i]) * value[i];
    });
  }
  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    for (std::int64_t row = 0; row < count() / width_; ++row) {
      const float *gate = x + 2 * row * width_, *value = gate + width_, *gradient = dy + row * width_;
      float *to_gate = dx + 2 * row * width_, *to_value = to_gate + width_;
      for (std::int64_t i = 0; i < width_; ++i) {
        to_gate[i] = elementwise::Silu{}.gradient(gate[i], gradient[i] * value[i]);
        to_value[i] = gradient[i] * elementwise::Silu{}(gate[i]);
      }
    }
  }

 private:
  template <class Visit>
  void for_each_row(const float* x, float* y, Visit&& visit) const {
    for (std::int64_t row = 0; row < count() / width_; ++row)
      visit(x + 2 * row * width_, x + (2 * row + 1) * width_, y + row * width_);
  }
  std::int64_t width_;
};
}  // namespace

std::unique_ptr<Layer> make_layer_norm(const LayerNorm& spec, const tensor::Shape& input) {
  return std::make_unique<RowNormLayer>(input, spec.epsilon, true);
}
std::unique_ptr<Layer> make_rms_norm(const RmsNorm& spec, const tensor::Shape& input) {
  return std::make_unique<RowNormLayer>(input, spec.epsilon, false);
}
std::unique_ptr<Layer> make_gated_silu(const tensor::Shape& input) {
  return std::make_unique<GatedSiluLayer>(output_shape(GatedSilu{}, input));
}

}  // namespace distdl::kernels::onednn
