// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <utility>
#include <vector>

#include <distdl/kernels/cuda/layers/batch_norm.hpp>
#include <distdl/kernels/cuda/layers/layers.hpp>
#include <distdl/kernels/cuda/primitives/columns.cuh>

namespace distdl::kernels::cuda {
namespace {
template <class T>
class BatchNormLayer : public LayerOf<T> {
 public:
  BatchNormLayer(SharedDevice device, const BatchNorm& spec, const ActivationFormat& input)
      : device_(std::move(device)),
        epsilon_(spec.epsilon),
        output_(input),
        channels_(channels_of(input)),
        state_(device_->allocate(sizeof(double) * kRows * static_cast<std::size_t>(channels_.channels))),
        observed_{row(0), row(1), row(2)},
        running_{row(3), row(4), row(5)},
        sums_{row(6), row(7)} {
    if (channels_.is_last) device_->reserve_scratch(column_scratch<BatchSums<T>>(columns_of(channels_)));
  }

  const ActivationFormat& output() const override { return output_; }
  bool backward_reads_output() const override { return false; }
  void load_parameters(ConstPointers parameters) override { parameters_.assign(parameters.begin(), parameters.end()); }

  Fusion fuse(const LayerSpec& next, bool in_place) override {
    then_relu_ = in_place && std::holds_alternative<Relu>(next);
    return then_relu_ ? Fusion::whole : Fusion::none;
  }
  void forward_fused(const void* x, void* y, void* /*next_y*/, Phase phase) override {
    LayerOf<T>::forward(x, y, phase);
  }

  void forward(const T* x, T* y, Phase phase) override {
    summed_ = nullptr;
    if (phase == Phase::training) y_ = then_relu_ ? y : nullptr;
    const BatchMoments& moments = phase == Phase::training ? observed_ : running_;
    if (phase == Phase::training)
      observe(x);
    else
      for_each_channel(RunningMoments{parameters_[2], parameters_[3], moments, epsilon_});
    fill_each(*device_, output_.elements(),
              Normalize<T>{x, y, parameters_[0], parameters_[1], moments, channels_, then_relu_});
  }

  void backward_input(const T* x, const T*, const T* dy, T* dx) override {
    sum_gradients(x, dy);
    fill_each(*device_, output_.elements(),
              InputGradient<T>{x, slope(dy), dx, parameters_[0], observed_, sums_, channels_});
  }

  void backward_weights(const T* x, const T* dy, Pointers gradients) override {
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
  void observe(const T* x) {
    if (channels_.is_last)
      return sum_columns(*device_, columns_of(channels_), BatchSums<T>{x, observed_, channels_, epsilon_});
    sum_over_channels(BatchMean<T>{x, observed_, channels_});
    sum_over_channels(BatchVariance<T>{x, observed_, channels_, epsilon_});
  }
  Slope<T> slope(const T* dy) const { return {dy, y_}; }
  /// Once for both ways backward.
  void sum_gradients(const T* x, const T* dy) {
    if (std::exchange(summed_, dy) == dy) return;
    if (channels_.is_last)
      return sum_columns(*device_, columns_of(channels_),
                         BothGradients<T>{x, slope(dy), observed_, sums_, channels_.channels});
    sum_over_channels(WeightGradient<T>{x, slope(dy), observed_, sums_, channels_});
    sum_over_channels(BiasGradient<T>{slope(dy), sums_, channels_});
  }

  SharedDevice device_;
  double epsilon_;
  ActivationFormat output_;
  Channels channels_;
  tensor::Buffer state_;   // (kRows, channels) doubles
  BatchMoments observed_;  // moments of the last training forward
  BatchMoments running_;   // moments of the last evaluation forward
  GradientSums sums_;
  bool then_relu_ = false;
  const T* y_ = nullptr;                  ///< output of the last training forward, with a ReLU
  const T* summed_ = nullptr;             ///< the gradient whose sums are there, since that forward
  std::vector<const float*> parameters_;  // weight, bias, running_mean, running_var
};
}  // namespace

std::unique_ptr<Layer> make_layer(SharedDevice device, const BatchNorm& spec, const ActivationFormat& input) {
  return make_of_type<BatchNormLayer>(input.type, device, spec, input);
}

}  // namespace distdl::kernels::cuda
