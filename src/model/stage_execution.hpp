// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/model/exchange.hpp>
#include <distdl/model/stage_plan.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::model {

class SlicedHead;

/// The stages of a plan, bound to a backend: their layers and the memory of outputs and gradients. It passes single
/// stages. The caller passes all of them in the order of the plan, and back; see Network and ContextChunks.
class StageExecution {
 public:
  /// `backend` must outlive this object. For the other arguments see plan_stages(), which throws the same errors.
  StageExecution(kernels::Backend& backend, const Description& model, const ModelTensors& tensors, std::int64_t samples,
                 bool recomputes, std::span<const LayerMemory> sizes);
  ~StageExecution();
  StageExecution(const StageExecution&) = delete;
  StageExecution& operator=(const StageExecution&) = delete;

  const StagePlan& plan() const noexcept { return plan_; }
  std::size_t size() const noexcept { return plan_.stages.size(); }
  /// The output of a stage, and its gradient after prepare_backward(), in the backend's memory.
  void* output(std::size_t stage) const { return memory_[stage].data; }
  void* gradient(std::size_t stage) const { return memory_[stage].gradient; }
  /// Bytes of all that it has allocated apart from StagePlan::activation_bytes.
  std::size_t workspace_bytes() const;

  /// If other ranks have the other shards or rows.
  void set_exchange(const Exchange& exchange);
  /// True if passes wait for other ranks.
  bool has_exchange() const { return static_cast<bool>(exchange_.sum); }
  /// Takes repacked parameters from `other`, which has the same layers and loads its parameters first.
  void share_parameters(const StageExecution& other);
  /// The arena from which parameters are loaded, in the backend's memory.
  void set_parameters(const float* arena) { parameters_ = arena; }
  /// Loads the parameters of all stages.
  void load_parameters();
  /// Loads the parameters of a stage, and of the one whose work it does, too.
  void load_parameters(std::size_t stage);
  /// Copies from host memory what the stages need; see Network::set_batch().
  void set_batch(const void* samples, const void* targets);

  /// To be called before the first stage is passed.
  void begin_forward() { output_here_ = kNone; }
  /// Passes a stage, unless the stage before does its work.
  void forward(std::size_t stage, kernels::Phase phase);
  /// Writes the totals of the loss, and the gradients of the predictions.
  void compute_loss(float scale, float* totals, bool with_gradients = true);
  /// Allocates the gradients of outputs; see Network::prepare_backward().
  void prepare_backward(bool in_pieces);
  bool is_prepared() const { return !gradients_.empty(); }
  /// Repeats the block that ends with this stage, if its activations are not there any more.
  void recompute_before(std::size_t stage);
  /// The two halves of a stage's backward pass, of which one computes the gradients of its tensors with `weights`. What
  /// the first half gathers is gathered with the first shard here that is passed, and what the second half sums, with
  /// the last one, whatever shards are here: several executions that pass their stages together pass the first half of
  /// all of them, then the second half of all of them.
  void begin_backward(std::size_t stage, const std::function<void()>& weights);
  void end_backward(std::size_t stage, const std::function<void()>& weights);
  /// Writes the gradients of a stage's tensors.
  void compute_weights(std::size_t stage, kernels::Pointers gradients);
  /// Writes them to their places in a gradient arena, or adds them to what is there.
  void backward_weights(std::size_t stage, float* gradients);

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  struct Memory {
    tensor::Buffer output;
    void* data = nullptr;      ///< the output; if the layer works in place, the output of the previous layer
    void* gradient = nullptr;  ///< gradient of the output, in one of gradients_
    void* product = nullptr;   ///< what the layer itself computes: `data`, or an addend of it
  };
  class BackendLayers;

  StagePlan make_plan(const Description& model, const ModelTensors& tensors, std::int64_t samples, bool recomputes,
                      std::span<const LayerMemory> sizes);
  void locate_output(std::size_t at);
  void bind_loss(const Description& model);
  void load_own_parameters(std::size_t at);

  const Stage& stage(std::size_t at) const { return plan_.stages[at]; }
  const void* input_of(const Stage& stage);
  /// The gradient of the layer's output, or of the sum over shards of which it is one.
  const void* output_gradient_of(std::size_t at);
  /// All rows of an output, or of its gradient. Collective where they lie apart.
  const void* whole_output(std::size_t at);
  const void* whole_gradient(std::size_t at);
  void gather_rows(const Stage& stage, const void* rows, void* all) const;
  /// A rank may have no rows.
  void add(const kernels::ActivationFormat& format, void* to, const void* addend) const;
  /// Converts values from the layout of one layer's output to that of another's of the same shape.
  const void* converted(const Stage& from, const void* values, const Stage& to);
  void backward_plus(std::size_t at);
  /// True if the gradient of the input takes the place of that of the output. Such a layer's weights come first. With
  /// the others compute_input_gradient() does, since some then know the gradients of their weights.
  bool overwrites_gradient(std::size_t at) const;
  void prepare_gradients(std::size_t at);
  /// Where the gradient of the layer's input goes: to that of the stage before, or to what is then added to it.
  void* input_gradient_of(const Stage& stage);
  /// Where the gradients of all layers that read the same input are added.
  void* input_gradient_sum_of(const Stage& stage);
  /// Computes the gradient of the input, or a shard's addend of it.
  void compute_input_gradient(std::size_t at);
  /// Sums it over shards, and adds the gradients that other layers have computed.
  void sum_input_gradient(std::size_t at);
  /// Memory for the addend of a shard: the first one's is that of the sum.
  void* addend_of(const Stage& stage, void* sum) const { return stage.shard == 0 ? sum : addends_[stage.shard]; }
  void sum_addends(const kernels::ActivationFormat& format, std::span<void* const> addends) const;
  /// The sum of the values, or gradients, of an output: all of it, or this rank's rows.
  void add_shards_of(const Stage& output, void* sum, std::size_t shards);
  /// For what a layer computes of an output or its gradient, of which this rank keeps all, or its rows.
  void* whole_of(const Stage& output, void* held) const { return output.is_sliced ? whole_.data() : held; }

  kernels::Backend& backend_;
  std::vector<std::unique_ptr<kernels::Layer>> layers_;  ///< layer of each stage; null: it has none
  Exchange exchange_;
  StagePlan plan_;
  std::vector<Memory> memory_;  ///< memory of each stage
  tensor::Buffer batch_, targets_;
  tensor::Buffer given_;                   ///< the batch before rounding
  tensor::Buffer spare_;                   ///< for a gradient that is then added to another one
  std::vector<tensor::Buffer> partials_;   ///< memory of the addends after the first
  std::vector<void*> addends_;             ///< addends of the sum over shards that is being made
  tensor::Buffer gathered_;                ///< all rows of an output
  tensor::Buffer whole_;                   ///< all rows of a sum before it is taken apart, or of a gradient
  std::size_t output_here_ = kNone;        ///< the stage whose output is in `gathered_`
  std::size_t gradient_here_ = kNone;      ///< the stage whose gradient is in `whole_`
  tensor::Buffer dense_, converted_;       ///< for conversion to the layout of another layer; few models need them
  tensor::Buffer block_;                   ///< the memory that blocks share
  std::vector<tensor::Buffer> gradients_;  ///< see GradientMemory; allocated at the first use
  std::unique_ptr<kernels::Loss> loss_;
  std::unique_ptr<SlicedHead> head_;   ///< instead of loss_, if the last layer is divided
  const float* parameters_ = nullptr;  ///< the arena
};

}  // namespace distdl::model
