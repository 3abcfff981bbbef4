// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/model/description.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::model {

/// Sums over the samples of a microbatch.
struct Totals {
  double loss = 0;     ///< nats
  double correct = 0;  ///< samples whose largest logit is the label's
};

/// A model bound to a backend for microbatches of a fixed size: layers and the activations between them.
/// Gradient arenas follow ModelTensors::layout, with kTail more floats at the end: the microbatch's totals travel with
/// its gradients, so that one sum over ranks serves both.
class Network {
 public:
  static constexpr std::size_t kTail = 16;
  static constexpr std::size_t kLossAt = 0, kCorrectAt = 1, kStopAt = 2, kSaveAt = 3;  ///< places in the tail

  /// `backend` and `tensors` must outlive the network. Throws ConfigError if the layers do not fit the sample shape.
  Network(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples);

  std::int64_t samples() const noexcept { return samples_; }
  /// Elements of a gradient arena, tail included.
  std::size_t gradient_count() const noexcept { return layout_size_ + kTail; }

  /// Call after every change of the parameter arena (backend memory) and once before the first forward.
  void load_parameters(const float* arena);
  /// images: samples() x (C, H, W) floats, labels: samples(); host memory, copied.
  void set_batch(const float* images, const std::int32_t* labels);
  /// Writes the whole gradient arena (backend memory): gradient of `scale` times the summed loss, observed statistics,
  /// and the totals in the tail.
  void forward_backward(float* gradients, float scale);
  /// With the running statistics, no gradients.
  Totals evaluate();

 private:
  struct Stage {
    std::unique_ptr<kernels::Layer> layer;
    tensor::Buffer output, gradient;   ///< the layer's output and the gradient of it
    std::vector<std::size_t> offsets;  ///< of its tensors in the arenas
  };
  void forward(kernels::Phase phase);

  kernels::Backend& backend_;
  std::int64_t samples_;
  std::size_t layout_size_;
  tensor::Buffer images_, labels_, totals_;
  std::vector<Stage> stages_;
  std::unique_ptr<kernels::Loss> loss_;
};

}  // namespace distdl::model
