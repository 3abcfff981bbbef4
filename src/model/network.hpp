// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/model/activations.hpp>
#include <distdl/model/description.hpp>
#include <distdl/model/step_replays.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::model {

/// Sums over the samples of a microbatch.
struct Totals {
  double loss = 0;     ///< in nats for cross-entropy
  double correct = 0;  ///< rows whose largest logit is that of the label
  double count = 0;    ///< terms of `loss` without ignored ones
};

class ContextChunks;
class SlicedHead;

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
  /// Binds the layers ModelTensors::layers. `backend` must outlive the network. `sizes`: sizes of the layers of the
  /// model, by which the blocks are chosen whose activations are recomputed; empty: their own. Throws ConfigError if
  /// the layers do not fit the sample shape.
  Network(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples,
          Activations activations = Activations::kept, std::span<const LayerMemory> sizes = {});
  ~Network();

  std::int64_t samples() const noexcept { return samples_; }
  /// Loss terms of one sample: 1, or the tokens of a sequence.
  std::int64_t terms() const noexcept { return terms_; }
  /// Number of elements of a gradient arena including the tail.
  std::size_t gradient_count() const noexcept { return layout_size_ + kTail; }

  /// Collective. Sets addends[0] to the sum of these activations: those of this network's branches, and of the other
  /// ranks'. The other addends' memory may change.
  using SumShards = std::function<void(const kernels::ActivationFormat&, std::span<void* const> addends)>;
  /// Collective. The values at `all` are `count` for each shard, or for each chunk in the order of their leaves; this
  /// rank has written its own. Writes the others.
  using Gather = std::function<void(tensor::DataType type, void* all, std::size_t count)>;
  /// Collectives of the ranks that have some branches of a model each.
  struct Exchange {
    SumShards sum;
    Gather gather;  ///< for a model whose head is divided
    /// Sums addends as SumShards does. Each rank gets its rows only: `counts` has the values of each slice, see
    /// row_counts().
    std::function<void(const kernels::ActivationFormat&, std::span<void* const> addends, void* rows,
                       std::span<const std::size_t> counts)>
        sum_to_rows;
    /// Writes to `all` the rows of all slices. `rows`: this rank's rows, which may be at their place in `all`.
    std::function<void(tensor::DataType type, const void* rows, void* all, std::span<const std::size_t> counts)>
        gather_rows;
  };
  /// For a network that has some branches of a model only; see branches_of(). Where activations are recomputed, these
  /// sums are repeated, too: the ranks must have as many branches each.
  void set_exchange_of_shards(const Exchange& exchange);
  /// For a model with Description::context of which this rank has some chunks only. Both functions work over the
  /// chunks.
  void set_exchange_of_chunks(SumShards sum, Gather gather);
  /// Bytes that the layers keep from the forward to the backward pass.
  std::size_t activation_bytes() const noexcept { return activation_bytes_; }
  /// True if some activations are computed again.
  bool recomputes() const noexcept { return !recomputation_.ends.empty(); }
  /// Floating-point operations that a backward pass computes again, see kernels::flops_of().
  double repeated_flops() const;
  /// Bytes of all other allocations: batches, gradients of activations, buffers of exchanges. Without memory that
  /// layers allocate for themselves.
  std::size_t workspace_bytes() const;

  /// Elements [first, end) of the parameter arena.
  struct Elements {
    std::size_t first = 0, end = 0;
  };
  /// Returns the elements of the parameters that each layer here reads in a forward pass, or in a backward pass, where
  /// layers are computed again before it.
  std::vector<std::vector<Elements>> reads(bool backward) const;
  /// Called before a layer reads parameters, with its number in reads(). A forward pass goes up; a backward pass, or a
  /// piece of one, goes down.
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
  /// Called in a backward pass: the gradients from this place of the arena on are final.
  using Finished = std::function<void(std::size_t place)>;
  /// Writes the whole gradient arena (backend memory): the gradient of `scale` times the summed loss, observed
  /// statistics, and the totals in the tail. Calls `finished`, if there is one, at each of places(). On a device it is
  /// not called, for a pass is recorded there.
  void forward_backward(float* gradients, float scale, const Finished& finished = {});
  /// Places for Finished, descending, from the place of the totals to 0. They are the same on all ranks; each is the
  /// begin of a tensor.
  std::vector<std::size_t> places() const;
  /// Uses the running statistics and computes no gradients.
  Totals evaluate();

  /// True if the first layer of the model is here.
  bool reads_samples() const { return first_ == 0; }
  /// True if the last layer of the model is here.
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

  /// Computes the logits without labels, dense: (samples, classes) or (samples, T, classes). Uses the running
  /// statistics, as evaluate() does. Not where logits lie apart, in chunks or slices.
  std::vector<float> logits();

 private:
  friend class ContextChunks;
  /// The place of one of a layer's tensors in the arenas.
  struct Place {
    std::size_t offset, count;
    bool adds;  ///< adds its gradient to that of a later layer that shares it, here or elsewhere
  };
  struct Stage {
    std::unique_ptr<kernels::Layer> layer;  ///< none: this is the output of the layers before this part
    kernels::ActivationFormat format;       ///< format of the output
    kernels::ActivationFormat rows;         ///< format of this rank's rows of the output, see Description::rows
    std::size_t rows_at = 0;                ///< bytes of the output before these rows
    bool is_sliced = false;                 ///< this rank has only its rows of the output and its gradient
    bool is_by_rows = false;                ///< the layer computes only these rows
    bool gradient_is_gathered = false;      ///< each rank computes its rows of the gradient of the whole output
    bool weights_read_all_rows = false;     ///< for a layer by rows: see RowSlices
    tensor::Buffer output;
    void* data = nullptr;      ///< the output; if the layer works in place, the output of the previous layer
    void* gradient = nullptr;  ///< gradient of the output, in one of gradients_
    bool in_place = false;
    kernels::Fusion done_before = kernels::Fusion::none;  ///< work that the previous layer does
    const Stage* fused = nullptr;                         ///< the next layer, if this one does some of its work
    std::vector<Place> tensors;
    int from = Wiring::kSample, plus = Wiring::kNothing;
    bool from_adds = false, plus_adds = false;  ///< another layer's gradient of the same output exists already
    bool is_used = false;                       ///< a later layer or the loss uses it
    std::size_t shard = 0;                      ///< number among the shards of a layer, if it is one
    std::size_t outputs_summed = 0;    ///< number of shards whose outputs, summed, are `data` of the last of them
    std::size_t gradients_summed = 0;  ///< shards whose input gradients are summed after the first one
    bool is_summed_later = false;      ///< its output is summed with the last shard
    bool is_summed_before = false;     ///< its gradient of the input is summed with the first shard
    void* product = nullptr;           ///< result of the layer itself: `data`, or an addend of it
    std::size_t final_from = 0;        ///< after its backward pass, the arena is final from here on
    double flops = 0;                  ///< operations of its forward pass
  };
  void pass(float* gradients, float scale, const Finished& finished);
  void load_parameters(const Stage& stage);
  void bind(const Description& model, const ModelTensors& tensors);
  void bind_shards(const Description& model, const Wiring& wiring, std::size_t before);
  /// Determines which rows of which activations lie apart.
  void bind_rows(const std::vector<bool>& sliced, std::size_t before);
  std::unique_ptr<kernels::Layer> make_layer(const kernels::LayerSpec& spec, bool is_sliced,
                                             const kernels::ActivationFormat& input);
  /// The sizes by which blocks of layers are chosen: ranks with as many shards have the same.
  std::vector<LayerMemory> equal_sizes(std::vector<LayerMemory> layers, const Description& model) const;
  void place_outputs(const Description& model);
  /// Uses the parameters of a network of the same layers for other chunks, which loads its parameters first.
  void share_parameters(const Network& other);
  void allocate_outputs(const Description& model, Activations activations, std::span<const LayerMemory> sizes);
  /// `shared`: memory of the blocks for the output, if it is not kept.
  void locate_output(std::size_t i, void* shared);
  void plan_gradients();
  void bind_before(const Description& model, const Wiring& wiring);
  void bind_loss(const Description& model);
  void compute_loss(float scale, float* totals, bool with_gradients = true);
  void forward(const Stage& stage, kernels::Phase phase);
  /// Returns its number in the model, for spans.
  std::uint32_t layer_of(const Stage& stage) const;
  /// Returns the block that ends with this stage, if its activations are not there any more.
  std::span<const Stage> block_before(const Stage& stage) const;
  /// True if a layer of the block that ends with `last` is computed again.
  static bool is_repeated(const Stage& one, const Stage& last);
  void recompute_before(const Stage& stage);
  const void* input_of(const Stage& stage);
  /// Returns the gradient of the layer's output, or of the sum over shards to which it belongs.
  const void* output_gradient_of(const Stage& stage);
  void compute_weights(const Stage& stage, kernels::Pointers gradients);
  /// Bytes of this rank's part of an output, or of its gradient: all of it, or its rows.
  static std::size_t held_bytes(const Stage& stage) { return (stage.is_sliced ? stage.rows : stage.format).bytes; }
  /// Bytes to allocate for it. Outputs have different memory, even without rows.
  static std::size_t memory_bytes(const Stage& stage) { return std::max(held_bytes(stage), std::size_t{1}); }
  /// Returns the place of this rank's rows in an output or its gradient.
  static void* own_rows(const Stage& stage, void* values) {
    return stage.is_sliced ? values : static_cast<std::byte*>(values) + stage.rows_at;
  }
  /// Returns all rows of an output, or of its gradient. Collective where they lie apart.
  const void* whole_output(const Stage& stage);
  const void* whole_gradient(const Stage& stage);
  void gather_rows(const Stage& stage, const void* rows, void* all) const;
  void add(const kernels::ActivationFormat& format, void* to, const void* addend) const;
  /// Converts values from the layout of one layer's output to that of another's of the same shape.
  const void* rearranged(const Stage& from, const void* values, const Stage& to);
  void backward_plus(Stage& stage);
  /// The two halves of a layer's backward pass, one of which computes the gradients of its tensors with `weights`. The
  /// first half gathers with the first shard here that is passed, the second half sums with the last one, whatever
  /// shards are here. So several networks that pass their layers together pass the first half of all of them, then the
  /// second half of all of them.
  void begin_backward(Stage& stage, const std::function<void()>& weights);
  void end_backward(Stage& stage, const std::function<void()>& weights);
  bool overwrites_gradient(const Stage& stage) const;
  /// Call before the layer is passed.
  void prepare_gradients(Stage& stage);
  void backward_weights(Stage& stage, float* gradients);
  static bool has_input_gradient(const Stage& stage);
  void* input_gradient_of(const Stage& stage);
  void* input_gradient_sum_of(const Stage& stage);
  /// Computes the gradient of its input, or a shard's addend of it; then the sum over shards and with other layers'
  /// gradients.
  void compute_input_gradient(Stage& stage);
  void sum_input_gradient(Stage& stage);
  /// Returns memory for the addend of a shard: the first one's is that of the sum.
  void* addend_of(const Stage& stage, void* sum) const { return stage.shard == 0 ? sum : addends_[stage.shard]; }
  /// Adds the first `shards` addends.
  void add_shards(const kernels::ActivationFormat& format, void* sum, std::size_t shards);
  void sum_addends(const kernels::ActivationFormat& format, std::span<void* const> addends) const;
  /// Sums the addends of an output's values, or gradients: all of it, or this rank's rows.
  void add_shards_of(const Stage& output, void* sum, std::size_t shards);
  /// Returns memory for a whole output or its gradient, of which this rank keeps all, or its rows.
  void* whole_of(const Stage& output, void* held) const { return output.is_sliced ? whole_.data() : held; }

  kernels::Backend& backend_;
  std::int64_t samples_;
  std::size_t layout_size_;
  std::size_t first_;  ///< number of its first layer in the model
  bool has_totals_;    ///< see ModelTensors
  bool has_loss_;      ///< the last layer of the model is here
  RowPart row_part_;
  bool has_some_rows_;  ///< other ranks have the other rows
  std::int64_t terms_ = 1;
  kernels::ActivationFormat sample_;
  tensor::Buffer batch_, targets_, totals_;
  tensor::Buffer given_;                  ///< the batch before rounding
  tensor::Buffer dense_logits_;           ///< allocated by the first call of logits()
  tensor::Buffer spare_;                  ///< for a gradient that is then added to another one
  std::vector<tensor::Buffer> partials_;  ///< memory of the addends after the first
  std::vector<void*> addends_;            ///< addends of the sum over shards that is being made
  Exchange exchange_;                     ///< if other ranks have the other shards
  tensor::Buffer gathered_;               ///< all rows of an output
  tensor::Buffer whole_;                  ///< all rows of a sum before it is taken apart, or of a gradient
  const Stage* output_here_ = nullptr;    ///< stage whose output is in `gathered_`
  const Stage* gradient_here_ = nullptr;  ///< stage whose gradient is in `whole_`
  tensor::Buffer dense_, rearranged_;     ///< for conversion to the layout of another layer; few models need them
  Recomputation recomputation_;           ///< no blocks: all activations are kept
  tensor::Buffer block_;                  ///< the memory that blocks share
  std::size_t activation_bytes_ = 0;
  std::vector<Stage> stages_;
  std::vector<tensor::Buffer> gradients_;  ///< gradients of outputs; reused by other layers; allocated at the first use
  std::unique_ptr<kernels::Loss> loss_;
  std::unique_ptr<SlicedHead> head_;       ///< instead of loss_, if the last layer is divided
  std::unique_ptr<ContextChunks> chunks_;  ///< none: the layers are here
  const float* parameters_ = nullptr;      ///< the arena that was loaded last
  BeforeReads before_reads_;               ///< none: all parameters are there
  StepReplays replays_;                    ///< replays of passes that use all of the above
  StepReplays changes_;                    ///< replays of changes of parameters
};

}  // namespace distdl::model
