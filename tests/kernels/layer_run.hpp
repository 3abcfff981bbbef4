// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <distdl/kernels/backend.hpp>

namespace distdl::kernels::test {

using Values = std::vector<float>;

/// Uniform in [-1, 1).
Values random_values(std::int64_t count, std::uint64_t seed);
/// A random order of numbers 0.05 apart, none of them nearer to 0 than 0.025: no kink of a layer lies near.
Values spaced_values(std::int64_t count, std::uint64_t seed);
/// A start for the layer's parameters at which none of them is 0 and the variances are positive.
std::vector<Values> random_parameters(const LayerSpec& spec, const tensor::Shape& input, std::uint64_t seed);
double dot(const Values& a, const Values& b);

/// Layers in a row on one backend, fused where they can be; dense host values in and out.
class LayerRun {
 public:
  LayerRun(Backend& backend, const std::vector<LayerSpec>& specs, const tensor::Shape& input);

  const tensor::Shape& output_shape() const { return activations_.back().format.shape; }
  /// Per layer and tensor.
  void set_parameters(std::size_t layer, const std::vector<Values>& values);
  Values forward(const Values& x, Phase phase = Phase::training);
  /// After a training forward: dx; the gradients are then at parameter_gradients().
  Values backward(const Values& dy);
  std::vector<Values> parameter_gradients(std::size_t layer);

 private:
  struct Tensor {
    tensor::Buffer buffer;
    std::size_t count = 0;
    float* data() const { return static_cast<float*>(buffer.data()); }
  };
  struct Activation {
    ActivationFormat format;
    std::shared_ptr<tensor::Buffer> value, gradient;  ///< shared where a fused layer works in place
  };
  struct Step {
    std::unique_ptr<Layer> layer;
    std::vector<Tensor> parameters, gradients;
    Fusion done_before = Fusion::none;
  };

  void fuse(const std::vector<LayerSpec>& specs);
  void run_step(std::size_t step, Phase phase);
  /// For an embedding: the numbers that it takes, in the place of floats.
  void upload_numbers(const Values& x);
  Tensor allocate(std::size_t count);
  Activation activation(const ActivationFormat& format);
  void upload(const ActivationFormat& format, const Values& values, const tensor::Buffer& to);
  Values download(const ActivationFormat& format, const tensor::Buffer& from);

  Backend& backend_;
  std::int64_t entries_ = 0;  ///< of the embedding that comes first, if any
  std::vector<Activation> activations_;
  std::vector<Step> steps_;
};

}  // namespace distdl::kernels::test
