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
  double loss = 0;     ///< in nats for cross-entropy
  double correct = 0;  ///< rows of logits whose largest logit is that of the label
  double count = 0;    ///< terms of `loss` without ignored ones
};

/// A model that is bound to a backend for microbatches of a fixed size: its layers and the activations between them.
/// Gradient arenas follow ModelTensors::layout and have kTail more floats at the end. These contain the totals of the
/// microbatch, so that one sum over the ranks is enough. The floats after the totals are zero and may be used by the
/// code that sums.
class Network {
 public:
  static constexpr std::size_t kTail = 16, kTotals = 3;
  static constexpr std::size_t kLossAt = 0, kCorrectAt = 1, kCountAt = 2;  ///< indices in the tail

  /// `backend` must outlive the network. Throws ConfigError if the layers do not fit the sample shape.
  Network(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples);

  std::int64_t samples() const noexcept { return samples_; }
  /// Loss terms of one sample: 1, or the tokens of a sequence.
  std::int64_t terms() const noexcept { return terms_; }
  /// Number of elements of a gradient arena including the tail.
  std::size_t gradient_count() const noexcept { return layout_size_ + kTail; }

  /// Allocates what the first backward pass would.
  void prepare();
  /// Call it after every change of the parameter arena (backend memory) and once before the first forward.
  void load_parameters(const float* arena);
  /// Calls change(), which writes the parameters that were loaded last, and loads them again. change() must do the same
  /// work each time. It is recorded if the backend has a Replay.
  void change_parameters(const std::function<void()>& change);
  /// samples() samples of Description::sample, as floats or int32 numbers, and their targets, see kernels::LossSpec.
  /// Both are copied from host memory.
  void set_batch(const void* samples, const void* targets);
  /// Told in a backward pass: the gradients from this place of the arena on are final.
  using Finished = std::function<void(std::size_t place)>;
  /// Writes the whole gradient arena (backend memory): the gradient of `scale` times the summed loss, observed
  /// statistics, and the totals in the tail. Calls `finished`, if there is one, at each of places(). On a device it is
  /// not called, for a pass is recorded there.
  void forward_backward(float* gradients, float scale, const Finished& finished = {});
  /// Descending, from the place of the totals to 0. They are the same on all ranks; each is the begin of a tensor.
  std::vector<std::size_t> places() const;
  /// Uses the running statistics and computes no gradients.
  Totals evaluate();
  /// Like evaluate(), without labels: (samples, classes) or (samples, T, classes), dense.
  std::vector<float> logits();

 private:
  /// The place of one of a layer's tensors in the arenas.
  struct Place {
    std::size_t offset, count;
    bool adds;  ///< adds its gradient to that of a later layer that shares it
  };
  struct Stage {
    std::unique_ptr<kernels::Layer> layer;
    tensor::Buffer output;
    void* data = nullptr;      ///< the output; if the layer works in place, the output of the previous layer
    void* gradient = nullptr;  ///< gradient of the output, in one of gradients_
    bool in_place = false;
    kernels::Fusion done_before = kernels::Fusion::none;  ///< work that the previous layer does
    const Stage* fused = nullptr;                         ///< the next layer, if this one does some of its work
    std::vector<Place> tensors;
    int from = Wiring::kSample, plus = Wiring::kNothing;
    bool from_adds = false, plus_adds = false;  ///< another layer's gradient of the same output exists already
    bool is_used = false;                       ///< by a later layer or the loss
    std::size_t final_from = 0;                 ///< after its backward pass, the arena is final from here on
  };
  void pass(float* gradients, float scale, const Finished& finished);
  void bind(const Description& model, const ModelTensors& tensors);
  void allocate_outputs(const Description& model);
  void plan_gradients();
  void share_gradients();
  void forward(kernels::Phase phase);
  void forward(const Stage& stage, kernels::Phase phase);
  const void* input_of(const Stage& stage) const;
  /// Converts values from the layout of one layer's output to that of another's of the same shape.
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
  tensor::Buffer given_;               ///< the batch before rounding
  tensor::Buffer dense_logits_;        ///< allocated by the first call of logits()
  tensor::Buffer spare_;               ///< for a gradient that is then added to another one
  tensor::Buffer dense_, rearranged_;  ///< for conversion to the layout of another layer; few models need them
  std::vector<Stage> stages_;
  std::vector<tensor::Buffer> gradients_;  ///< of outputs; reused by other layers; allocated at the first use
  std::unique_ptr<kernels::Loss> loss_;
  const float* parameters_ = nullptr;  ///< the arena that was loaded last
  StepReplays replays_;                ///< of passes that use all of the above
  StepReplays changes_;                ///< of changes of parameters
};

}  // namespace distdl::model
