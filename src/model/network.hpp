// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/model/description.hpp>
#include <distdl/model/step_replays.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::model {

/// Sums over the samples of a microbatch.
struct Totals {
  double loss = 0;     ///< in nats, for cross-entropy
  double correct = 0;  ///< rows of logits of which the largest is the label's
  double count = 0;    ///< terms of `loss`, without those that are ignored
};

/// A model bound to a backend for microbatches of a fixed size: layers and the activations between them.
/// Gradient arenas follow ModelTensors::layout, with kTail more floats at the end: the microbatch's totals travel with
/// its gradients, so that one sum over ranks serves both. The floats after the totals are zero, for whoever sums.
class Network {
 public:
  static constexpr std::size_t kTail = 16, kTotals = 3;
  static constexpr std::size_t kLossAt = 0, kCorrectAt = 1, kCountAt = 2;  ///< places in the tail

  /// `backend` must outlive the network. Throws ConfigError if the layers do not fit the sample shape.
  Network(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples);

  std::int64_t samples() const noexcept { return samples_; }
  /// Terms of the loss of one sample: 1, or the tokens of a sequence.
  std::int64_t terms() const noexcept { return terms_; }
  /// Elements of a gradient arena, tail included.
  std::size_t gradient_count() const noexcept { return layout_size_ + kTail; }

  /// Call after every change of the parameter arena (backend memory) and once before the first forward.
  void load_parameters(const float* arena);
  /// change() gives the backend the same work each time, which writes the parameters loaded last; then they are loaded
  /// anew. Recorded where the backend has a Replay.
  void change_parameters(const std::function<void()>& change);
  /// samples() samples of Description::sample, floats or int32 numbers; targets: what the loss takes, see
  /// kernels::LossSpec. Host memory, copied.
  void set_batch(const void* samples, const void* targets);
  /// Writes the whole gradient arena (backend memory): gradient of `scale` times the summed loss, observed statistics,
  /// and the totals in the tail.
  void forward_backward(float* gradients, float scale);
  /// With the running statistics, no gradients.
  Totals evaluate();
  /// The same without labels: (samples, classes) or (samples, T, classes), dense.
  std::vector<float> logits();

 private:
  /// One of a layer's tensors in the arenas.
  struct Place {
    std::size_t offset, count;
    bool adds;  ///< its gradient to that of a later layer that shares it
  };
  struct Stage {
    std::unique_ptr<kernels::Layer> layer;
    tensor::Buffer output;
    void* data = nullptr;      ///< the output, or that of the layer before it where this one works in place
    void* gradient = nullptr;  ///< of the output, in one of gradients_
    bool in_place = false;
    kernels::Fusion done_before = kernels::Fusion::none;  ///< by the layer before it
    const Stage* fused = nullptr;                         ///< the layer after it of which it does something
    std::vector<Place> tensors;
    int from = Wiring::kSample, plus = Wiring::kNothing;
    bool from_adds = false, plus_adds = false;  ///< another layer's gradient to the same output is there before
    bool is_used = false;                       ///< by a later layer, or the loss
  };
  void pass(float* gradients, float scale);
  void bind(const Description& model, const ModelTensors& tensors);
  void allocate_outputs(const Description& model);
  void plan_gradients();
  void share_gradients();
  void forward(kernels::Phase phase);
  void forward(const Stage& stage, kernels::Phase phase);
  const void* input_of(const Stage& stage) const;
  /// Values in the arrangement of one layer's output, in that of another's of the same shape.
  const void* rearranged(const Stage& from, const void* values, const Stage& to);
  void backward_plus(Stage& stage);
  void backward_weights(Stage& stage, float* gradients);
  void backward_input(Stage& stage);

  kernels::Backend& backend_;
  std::int64_t samples_;
  std::size_t layout_size_;
  std::int64_t terms_ = 1;
  kernels::ActivationFormat sample_;
  tensor::Buffer batch_, targets_, totals_;
  tensor::Buffer given_;               ///< the batch as it comes, where it is to be rounded
  tensor::Buffer dense_logits_;        ///< once they were asked for
  tensor::Buffer spare_;               ///< for a gradient that is then added to another
  tensor::Buffer dense_, rearranged_;  ///< on the way to the arrangement of another layer; few models need them
  std::vector<Stage> stages_;
  std::vector<tensor::Buffer> gradients_;  ///< of outputs, each used again for layers further down; once asked for
  std::unique_ptr<kernels::Loss> loss_;
  const float* parameters_ = nullptr;  ///< the arena that was loaded
  StepReplays replays_;                ///< of what uses all of the above
  StepReplays changes_;                ///< of parameters
};

}  // namespace distdl::model
