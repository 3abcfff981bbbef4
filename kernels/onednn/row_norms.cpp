// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include <distdl/kernels/elementwise/functors.hpp>
#include <distdl/kernels/host/vectors.hpp>
#include <distdl/kernels/onednn/layers.hpp>

namespace distdl::kernels::onednn {
namespace {
using host::sum_of;

/// See reference/row_norms.cpp. What forward finds out of each row is kept for backward.
template <class T>
class RowNormLayer : public LayerOf<T> {
 public:
  RowNormLayer(const tensor::Shape& input, float epsilon, bool centred)
      : output_(dense(input, tensor::data_type_of<T>())),
        width_(input.back()),
        rows_(tensor::element_count(input) / width_),
        epsilon_(epsilon),
        centred_(centred),
        statistics_(static_cast<std::size_t>(rows_)) {}

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }
  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = centred_ ? parameters[1] : nullptr;
  }

  void forward(const T* x, T* y, Phase) override {
    host::vectorized([=, this] { norm(x, y); });
  }
  void backward_input(const T* x, const T*, const T* dy, T* dx) override {
    host::vectorized([=, this] { input_gradient(x, dy, dx); });
  }
  void backward_weights(const T* x, const T* dy, Pointers gradients) override {
    host::vectorized([=, this] { weight_gradients(x, dy, gradients); });
  }

 private:
  void norm(const T* x, T* y) {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const T* __restrict from = x + row * width_;
      T* __restrict to = y + row * width_;
      const auto [mean, inverse] = statistics_[row] = statistics_of(from);
      if (bias_)
        for (std::int64_t i = 0; i < width_; ++i) to[i] = (from[i] - mean) * inverse * weight_[i] + bias_[i];
      else
        for (std::int64_t i = 0; i < width_; ++i) to[i] = from[i] * inverse * weight_[i];
    }
  }

  void input_gradient(const T* x, const T* dy, T* dx) const {
    const float parts = 1 / static_cast<float>(width_);
    for (std::int64_t row = 0; row < rows_; ++row) {
      const T* __restrict from = x + row * width_, * __restrict gradient = dy + row * width_;
      T* __restrict to = dx + row * width_;
      const float mean = statistics_[row].mean, inverse = statistics_[row].inverse;
      const float sum = centred_ ? sum_of(width_, [&](auto i) { return gradient[i] * weight_[i]; }) * parts : 0;
      const float product =
          sum_of(width_, [&](auto i) { return gradient[i] * weight_[i] * (from[i] - mean) * inverse; }) * parts;
      for (std::int64_t i = 0; i < width_; ++i)
        to[i] = inverse * (gradient[i] * weight_[i] - sum - (from[i] - mean) * inverse * product);
    }
  }

  void weight_gradients(const T* x, const T* dy, Pointers gradients) const {
    float* const __restrict weight = gradients[0];
    std::fill_n(weight, width_, 0.0f);
    if (centred_) std::fill_n(gradients[1], width_, 0.0f);
    for (std::int64_t row = 0; row < rows_; ++row) {
      const T* __restrict from = x + row * width_, * __restrict gradient = dy + row * width_;
      const auto [mean, inverse] = statistics_[row];
      for (std::int64_t i = 0; i < width_; ++i) weight[i] += gradient[i] * (from[i] - mean) * inverse;
      if (!centred_) continue;
      float* const __restrict bias = gradients[1];
      for (std::int64_t i = 0; i < width_; ++i) bias[i] += gradient[i];
    }
  }

  struct Statistics {
    float mean = 0, inverse = 0;  ///< inverse of the deviation
  };
  Statistics statistics_of(const T* row) const {
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

template <class T>
class GatedSiluLayer : public StatelessOf<T> {
 public:
  bool backward_reads_output() const override { return false; }
  explicit GatedSiluLayer(const tensor::Shape& output)
      : StatelessOf<T>(dense(output, tensor::data_type_of<T>())), width_(output.back()) {}
  void forward(const T* x, T* y, Phase) override {
    for_each_row(x, y, [&](const T* gate, const T* value, T* to) {
      for (std::int64_t i = 0; i < width_; ++i) to[i] = elementwise::Silu{}(float{gate[i]}) * value[i];
    });
  }
  void backward_input(const T* x, const T*, const T* dy, T* dx) override {
    for (std::int64_t row = 0; row < this->count() / width_; ++row) {
      const T *gate = x + 2 * row * width_, *value = gate + width_, *gradient = dy + row * width_;
      T *to_gate = dx + 2 * row * width_, *to_value = to_gate + width_;
      for (std::int64_t i = 0; i < width_; ++i) {
        to_gate[i] = elementwise::Silu{}.gradient(float{gate[i]}, gradient[i] * value[i]);
        to_value[i] = gradient[i] * elementwise::Silu{}(float{gate[i]});
      }
    }
  }

 private:
  template <class Visit>
  void for_each_row(const T* x, T* y, Visit&& visit) const {
    for (std::int64_t row = 0; row < this->count() / width_; ++row)
      visit(x + 2 * row * width_, x + (2 * row + 1) * width_, y + row * width_);
  }
  std::int64_t width_;
};

std::unique_ptr<Layer> make_row_norm(const ActivationFormat& input, float epsilon, bool centred) {
  return tensor::with_type(input.type, [&](auto type) -> std::unique_ptr<Layer> {
    return std::make_unique<RowNormLayer<decltype(type)>>(input.shape, epsilon, centred);
  });
}
}  // namespace

std::unique_ptr<Layer> make_layer(Context&, const LayerNorm& spec, const ActivationFormat& input) {
  return make_row_norm(input, spec.epsilon, true);
}
std::unique_ptr<Layer> make_layer(Context&, const RmsNorm& spec, const ActivationFormat& input) {
  return make_row_norm(input, spec.epsilon, false);
}
std::unique_ptr<Layer> make_layer(Context&, const GatedSilu&, const ActivationFormat& input) {
  return tensor::with_type(input.type, [&](auto type) -> std::unique_ptr<Layer> {
    return std::make_unique<GatedSiluLayer<decltype(type)>>(output_shape(GatedSilu{}, input.shape));
  });
}

}  // namespace distdl::kernels::onednn
