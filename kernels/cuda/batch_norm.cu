// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <utility>
#include <vector>

#include <distdl/kernels/cuda/batch_norm.hpp>
#include <distdl/kernels/cuda/launch.cuh>
#include <distdl/kernels/cuda/layers.hpp>

namespace distdl::kernels::cuda {
namespace {
class BatchNormLayer : public Layer {
 public:
  BatchNormLayer(SharedDevice device, const BatchNorm& spec, const tensor::Shape& input)
      : device_(std::move(device)),
        epsilon_(spec.epsilon),
        output_(dense(input)),
        count_(static_cast<std::size_t>(tensor::element_count(input))),
        channels_(channels_of(input)),
        state_(device_->allocate(sizeof(double) * kRows * static_cast<std::size_t>(channels_.channels))),
        observed_{row(0), row(1), row(2)},
        running_{row(3), row(4), row(5)},
        sums_{row(6), row(7)} {}

  const ActivationFormat& output() const override { return output_; }
  void load_parameters(ConstPointers parameters) override { parameters_.assign(parameters.begin(), parameters.end()); }

  void forward(const float* x, float* y, Phase phase) override {
    const BatchMoments& moments = phase == Phase::training ? observed_ : running_;
    if (phase == Phase::training) {
      sum_over_channels(BatchMean{x, moments, channels_});
      sum_over_channels(BatchVariance{x, moments, channels_, epsilon_});
    } else {
      for_each_channel(RunningMoments{parameters_[2], parameters_[3], moments, epsilon_});
    }
    for_each(*device_, count_, Normalize{x, y, parameters_[0], parameters_[1], moments, channels_});
  }

  void backward_input(const float* x, const float*, const float* dy, float* dx) override {
    sum_gradients(x, dy);
    for_each(*device_, count_, InputGradient{x, dy, dx, parameters_[0], observed_, sums_, channels_});
  }

  void backward_weights(const float* x, const float* dy, Pointers gradients) override {
    sum_gradients(x, dy);
    const auto values = static_cast<double>(channels_.values());
    for_each_channel(BatchNormGradients{observed_, sums_, gradients[0], gradients[1], gradients[2], gradients[3],
                                        values > 1 ? values / (values - 1) : 1.0});
  }

 private:
  static constexpr std::size_t kRows = 8;
  double* row(std::size_t index) const {
    return static_cast<double*>(state_.data()) + index * static_cast<std::size_t>(channels_.channels);
  }

  template <class Reduce>
  void sum_over_channels(const Reduce& reduce) {
    sum_each(*device_, channels_.channels, channels_.values(), reduce);
  }
  template <class Body>
  void for_each_channel(const Body& body) {
    for_each(*device_, static_cast<std::size_t>(channels_.channels), body);
  }
  void sum_gradients(const float* x, const float* dy) {
    sum_over_channels(WeightGradient{x, dy, observed_, sums_, channels_});
    sum_over_channels(BiasGradient{dy, sums_, channels_});
  }

  SharedDevice device_;
  double epsilon_;
  ActivationFormat output_;
  std::size_t count_;  // elements
  Channels channels_;
  tensor::Buffer state_;   // (kRows, channels) doubles
  BatchMoments observed_;  // of the last training forward
  BatchMoments running_;   // of the last evaluation forward
  GradientSums sums_;
  std::vector<const float*> parameters_;  // weight, bias, running_mean, running_var
};
}  // namespace

std::unique_ptr<Layer> make_batch_norm(SharedDevice device, const BatchNorm& spec, const tensor::Shape& input) {
  return std::make_unique<BatchNormLayer>(std::move(device), spec, input);
}

}  // namespace distdl::kernels::cuda
