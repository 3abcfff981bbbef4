// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <distdl/kernels/reference/layers.hpp>

namespace distdl::kernels::reference {
namespace {
/// Ioffe and Szegedy, "Batch normalization", ICML 2015.
class BatchNormLayer : public FloatLayer {
 public:
  BatchNormLayer(const BatchNorm& spec, const tensor::Shape& input)
      : spec_(spec),
        output_(dense(input)),
        channels_(input[1]),
        pixels_(input.size() == 4 ? input[2] * input[3] : 1),
        values_(input[0] * pixels_),
        mean_(input[1]),
        variance_(input[1]) {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { parameters_.assign(parameters.begin(), parameters.end()); }

  void forward(const float* x, float* y, Phase phase) override {
    if (phase == Phase::training) observe(x);
    for (std::int64_t c = 0; c < channels_; ++c) {
      double mean = phase == Phase::training ? mean_[c] : parameters_[2][c];
      double scale = parameters_[0][c] / deviation(phase == Phase::training ? variance_[c] : parameters_[3][c]);
      for_each_value(c, [&](std::int64_t i) { y[i] = static_cast<float>((x[i] - mean) * scale + parameters_[1][c]); });
    }
  }

  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    for (std::int64_t c = 0; c < channels_; ++c) {
      Sums sums = sum_gradients(c, x, dy);
      double inverse = 1 / deviation(variance_[c]), scale = parameters_[0][c] * inverse;
      for_each_value(c, [&](std::int64_t i) {
        double normalized = (x[i] - mean_[c]) * inverse;
        dx[i] = static_cast<float>(scale * (dy[i] - (sums.bias + normalized * sums.weight) / count()));
      });
    }
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    double unbiased = values_ > 1 ? count() / (count() - 1) : 1.0;
    for (std::int64_t c = 0; c < channels_; ++c) {
      Sums sums = sum_gradients(c, x, dy);
      gradients[0][c] = static_cast<float>(sums.weight);
      gradients[1][c] = static_cast<float>(sums.bias);
      gradients[2][c] = static_cast<float>(mean_[c]);
      gradients[3][c] = static_cast<float>(variance_[c] * unbiased);
    }
  }

 private:
  struct Sums {
    double weight = 0;
    double bias = 0;
  };

  double count() const { return static_cast<double>(values_); }
  double deviation(double variance) const { return std::sqrt(variance + spec_.epsilon); }

  template <class Visit>
  void for_each_value(std::int64_t channel, Visit&& visit) const {
    for (std::int64_t n = 0; n < values_ / pixels_; ++n)
      for (std::int64_t i = 0; i < pixels_; ++i) visit((n * channels_ + channel) * pixels_ + i);
  }

  void observe(const float* x) {
    for (std::int64_t c = 0; c < channels_; ++c) {
      double sum = 0, squares = 0;
      for_each_value(c, [&](std::int64_t i) { sum += x[i]; });
      mean_[c] = sum / count();
      for_each_value(c, [&](std::int64_t i) { squares += (x[i] - mean_[c]) * (x[i] - mean_[c]); });
      variance_[c] = squares / count();
    }
  }

  Sums sum_gradients(std::int64_t c, const float* x, const float* dy) const {
    Sums sums;
    double inverse = 1 / deviation(variance_[c]);
    for_each_value(c, [&](std::int64_t i) {
      sums.weight += dy[i] * (x[i] - mean_[c]) * inverse;
      sums.bias += dy[i];
    });
    return sums;
  }

  BatchNorm spec_;
  ActivationFormat output_;
  std::int64_t channels_, pixels_, values_;  // values of one channel: N * H * W
  std::vector<double> mean_, variance_;      // statistics of the last training forward
  std::vector<const float*> parameters_;     // weight, bias, running_mean, running_var
};
}  // namespace

std::unique_ptr<Layer> make_layer(const BatchNorm& spec, const tensor::Shape& input) {
  return std::make_unique<BatchNormLayer>(spec, input);
}

}  // namespace distdl::kernels::reference
