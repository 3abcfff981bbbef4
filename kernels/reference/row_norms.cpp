// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <distdl/kernels/reference/layers.hpp>

namespace distdl::kernels::reference {
namespace {
/// Normalizes each row of the last dimension: z = (x - mean) / deviation, y = z * weight + bias. Without `centred` the
/// mean counts as 0, and there is no bias.
class RowNormLayer : public FloatLayer {
 public:
  RowNormLayer(const tensor::Shape& input, float epsilon, bool centred)
      : output_(dense(input)),
        width_(input.back()),
        rows_(tensor::element_count(input) / width_),
        epsilon_(epsilon),
        centred_(centred) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override {
    weight_ = parameters[0];
    bias_ = centred_ ? parameters[1] : nullptr;
  }

  void forward(const float* x, float* y, Phase) override {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const Statistics of = statistics(x + row * width_);
      for (std::int64_t i = 0; i < width_; ++i) {
        const double z = (x[row * width_ + i] - of.mean) * of.inverse;
        y[row * width_ + i] = static_cast<float>(z * weight_[i] + (bias_ ? bias_[i] : 0));
      }
    }
  }

  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t at = row * width_;
      const Statistics of = statistics(x + at);
      double sum = 0, product = 0;
      for (std::int64_t i = 0; i < width_; ++i) {
        const double dz = double{dy[at + i]} * weight_[i];
        sum += dz;
        product += dz * (x[at + i] - of.mean) * of.inverse;
      }
      for (std::int64_t i = 0; i < width_; ++i) {
        const double z = (x[at + i] - of.mean) * of.inverse, dz = double{dy[at + i]} * weight_[i];
        dx[at + i] = static_cast<float>(of.inverse * (dz - (centred_ ? sum : 0) / static_cast<double>(width_) -
                                                      z * product / static_cast<double>(width_)));
      }
    }
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    std::vector<double> weight(static_cast<std::size_t>(width_)), bias(static_cast<std::size_t>(width_));
    for (std::int64_t row = 0; row < rows_; ++row) {
      const Statistics of = statistics(x + row * width_);
      for (std::int64_t i = 0; i < width_; ++i) {
        weight[i] += dy[row * width_ + i] * (x[row * width_ + i] - of.mean) * of.inverse;
        bias[i] += dy[row * width_ + i];
      }
    }
    for (std::int64_t i = 0; i < width_; ++i) {
      gradients[0][i] = static_cast<float>(weight[i]);
      if (centred_) gradients[1][i] = static_cast<float>(bias[i]);
    }
  }

 private:
  struct Statistics {
    double mean = 0, inverse = 0;  ///< inverse of the deviation
  };
  Statistics statistics(const float* row) const {
    Statistics of;
    double squares = 0;
    for (std::int64_t i = 0; i < width_ && centred_; ++i) of.mean += row[i] / static_cast<double>(width_);
    for (std::int64_t i = 0; i < width_; ++i) squares += (row[i] - of.mean) * (row[i] - of.mean);
    of.inverse = 1 / std::sqrt(squares / static_cast<double>(width_) + epsilon_);
    return of;
  }

  ActivationFormat output_;
  std::int64_t width_, rows_;
  double epsilon_;
  bool centred_;
  const float* weight_ = nullptr;
  const float* bias_ = nullptr;
};
}  // namespace

/// Ba et al., "Layer normalization", 2016.
std::unique_ptr<Layer> make_layer(const LayerNorm& spec, const tensor::Shape& input) {
  return std::make_unique<RowNormLayer>(input, spec.epsilon, true);
}
/// Zhang and Sennrich, "Root mean square layer normalization", 2019.
std::unique_ptr<Layer> make_layer(const RmsNorm& spec, const tensor::Shape& input) {
  return std::make_unique<RowNormLayer>(input, spec.epsilon, false);
}

}  // namespace distdl::kernels::reference
