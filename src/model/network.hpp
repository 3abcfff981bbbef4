// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/model/activations.hpp>
#include <distdl/model/description.hpp>
#include <distdl/model/exchange.hpp>
#include <distdl/model/stage_plan.hpp>
#include <distdl/model/step_replays.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::model {

/// Sums over the samples of a microbatch.
struct Totals {
  double loss = 0;     ///< in nats for cross-entropy
  double correct = 0;  ///< rows of logits whose largest logit is that of the label
  double count = 0;    ///< terms of `loss` without ignored ones
};

class ContextChunks;
class StageExecution;

/// A model, or some of its layers, that is bound to a backend for microbatches of a fixed size: the layers and the
/// activations between them.
/// Gradient arenas follow ModelTensors::layout and have kTail more floats at the end. These contain the totals of the
/// microbatch, so that one sum over the ranks is enough. The floats after the totals are zero and may be used by the
/// code that sums.
class Network {
 public:
  static constexpr std::size_t kTail = 16, kTotals = 3;
  static constexpr std::size_t kLossAt = 0, kCorrectAt = 1, kCountAt = 2;  ///< indices in the tail

  /// Activations that stay in memory until the backward pass. No bit depends on it.
  enum class Activations {
    kept,
    recomputed,  ///< outputs of blocks only, see Recomputation; not with a backward pass in pieces
  };
  /// Binds the layers ModelTensors::layers. `backend` must outlive the network. `sizes`: of the layers of the model, by
  /// which the blocks are chosen whose activations are recomputed; empty: their own. Throws ConfigError if the layers
  /// do not fit the sample shape.
  Network(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples,
          Activations activations = Activations::kept, std::span<const LayerMemory> sizes = {});
  ~Network();

  std::int64_t samples() const noexcept { return samples_; }
  /// Loss terms of one sample: 1, or the tokens of a sequence.
  std::int64_t terms() const noexcept { return terms_; }
  /// Number of elements of a gradient arena including the tail.
  std::size_t gradient_count() const noexcept { return layout_size_ + kTail; }

  using SumShards = model::SumShards;
  using Gather = model::Gather;
  using Exchange = model::Exchange;
  /// For a network that has some branches of a model only; see branches_of(). Where activations are recomputed, so are
  /// these sums: the ranks must have as many branches each.
  void set_exchange_of_shards(const Exchange& exchange);
  /// For a model with Description::context of which this rank has some chunks only. The sums are over chunks.
  void set_exchange_of_chunks(SumShards sum, Gather gather);
  /// Bytes of what the layers keep from the forward to the backward pass.
  std::size_t activation_bytes() const;
  /// Whether it computes some of them again.
  bool recomputes() const;
  /// The floating-point operations of what it computes again in a backward pass, see kernels::flops_of().
  double repeated_flops() const;
  /// Bytes of all else that it has allocated: batches, gradients of activations, what ranks exchange. Not of what its
  /// layers keep for themselves.
  std::size_t workspace_bytes() const;

  using Elements = model::Elements;
  /// Parameters that each layer reads here in a forward pass, or in a backward pass, with what is computed again
  /// before it.
  std::vector<std::vector<Elements>> reads(bool backward) const;
  /// Told before a layer reads parameters, by its number in reads(). A forward pass goes up, a backward pass, or a
  /// piece of one, down.
  using BeforeReads = std::function<void(bool backward, std::size_t layer)>;
  /// From now on parameters need to be in the arena only when they are read. Not for a backend that records passes.
  void set_before_reads(BeforeReads before);
  /// Call it after every change of the parameter arena (backend memory) and once before the first forward.
  void load_parameters(const float* arena);
  /// Calls change(), which writes the parameters that were loaded last, and loads them again. change() must do the same
  /// work each time. It is recorded if the backend has a Replay.
  void change_parameters(const std::function<void()>& change);
  /// samples() samples of Description::sample, as floats or int32 numbers, and their targets, see kernels::LossSpec.
  /// Both are copied from host memory; a part of a model takes those that it needs, see reads_samples() and has_loss().
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

  /// Whether the first layer of the model is here.
  bool reads_samples() const { return reads_samples_; }
  /// Whether the last layer of the model is here.
  bool has_loss() const { return has_loss_; }
  /// An activation, or its gradient, in the backend's memory. Its layout is the backend's, the same on both sides of a
  /// border between two parts.
  using Activation = std::span<std::byte>;
  /// The output of the layer before, for a part that does not read samples, and its gradient.
  Activation input() const;
  Activation input_gradient() const;
  /// The output of the last layer here, and its gradient.
  Activation output() const;
  Activation output_gradient() const;

  /// forward_backward() in pieces, which no backend records: first prepare_backward() once. Then, for each microbatch,
  /// fill input() or call set_batch(), call forward(), fill output_gradient() unless has_loss(), and call backward(),
  /// or backward_input() and later backward_weights(). Between forward() and the end of the backward pass the network
  /// belongs to the microbatch. The RNG key must be that of the microbatch in all of them.
  ///
  /// `in_pieces`: backward_input() will be used, which keeps the gradients of all outputs.
  void prepare_backward(bool in_pieces);
  void forward(kernels::Phase phase);
  /// Where a later layer elsewhere shares a tensor, `gradients` must contain its gradient, see ModelTensor::elsewhere.
  void backward(float* gradients, float scale, const Finished& finished = {});
  /// Computes the gradient of the input.
  void backward_input(float scale);
  /// Writes the gradient arena. `gradients`: as for backward().
  void backward_weights(float* gradients);
  /// After forward() for evaluation, of a network that has the loss.
  Totals totals();

  /// Like evaluate(), without labels: (samples, classes) or (samples, T, classes), dense. Not where they lie apart, in
  /// chunks or slices.
  std::vector<float> logits();

 private:
  /// With chunks, that of each chunk's stages.
  const StagePlan& plan() const;
  void pass(float* gradients, float scale, const Finished& finished);
  /// Tells `before_reads_` of a stage.
  void announce(bool backward, std::size_t stage) const;

  kernels::Backend& backend_;
  std::int64_t samples_;
  std::int64_t terms_ = 1;
  std::size_t layout_size_;
  bool reads_samples_, has_loss_;
  bool has_totals_;  ///< see ModelTensors
  tensor::Buffer totals_;
  tensor::Buffer dense_logits_;             ///< allocated by the first call of logits()
  std::unique_ptr<StageExecution> stages_;  ///< null with chunks
  std::unique_ptr<ContextChunks> chunks_;   ///< for a model with Description::context; else null
  const float* parameters_ = nullptr;       ///< the arena that was loaded last
  BeforeReads before_reads_;                ///< none: all parameters are there
  StepReplays replays_;                     ///< replays of passes that use all of the above
  StepReplays changes_;                     ///< replays of changes of parameters
};

}  // namespace distdl::model
