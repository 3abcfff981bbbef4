// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <distdl/kernels/backend.hpp>
#include <distdl/model/activations.hpp>
#include <distdl/model/description.hpp>

// The plan of a network: its stages with their formats, the memory of outputs and gradients, fused layers, and the
// order in which gradients are added. It is a pure function of the model and of what the layers say about themselves.
namespace distdl::model {

/// Elements [first, end) of the parameter arena.
struct Elements {
  std::size_t first = 0, end = 0;
};

/// The place of one of a layer's tensors in the arenas.
struct TensorPlace {
  std::size_t offset = 0, count = 0;
  bool adds = false;  ///< adds its gradient to that of a later layer that shares it, here or elsewhere
};

/// A layer of the plan, or, as the first stage of a part that reads no samples, the output of the layers before it.
struct Stage {
  bool has_layer = true;
  kernels::ActivationFormat format;    ///< format of the output
  kernels::ActivationFormat rows;      ///< format of the rows of it that this rank has, see Description::rows
  std::size_t rows_at = 0;             ///< bytes of the output before them
  bool is_sliced = false;              ///< this rank has only its rows of the output and its gradient
  bool is_by_rows = false;             ///< the layer computes them only
  bool gradient_is_gathered = false;   ///< each rank computes its rows of the gradient of the whole output
  bool weights_read_all_rows = false;  ///< for a layer that computes some, see RowSlices
  std::size_t workspace = 0;           ///< bytes of kernels::Layer::workspace()
  bool in_place = false;               ///< the output lies where that of `from` does
  kernels::Fusion done_before = kernels::Fusion::none;  ///< work that the previous layer does
  std::optional<std::size_t> fused;                     ///< the next stage, if this one does some of its work
  std::vector<TensorPlace> tensors;
  int from = Wiring::kSample, plus = Wiring::kNothing;  ///< stages
  bool plus_has_other_layout = false;                   ///< values are converted before they are added
  bool from_adds = false, plus_adds = false;            ///< another layer's gradient of the same output exists already
  bool is_used = false;                                 ///< by a later layer or the loss
  std::size_t shard = 0;                                ///< number among the shards of a layer, if it is one
  std::size_t outputs_summed = 0;    ///< shards whose outputs are summed into that of the last of them
  std::size_t gradients_summed = 0;  ///< shards whose gradients of the input are summed after the first of them
  bool is_summed_later = false;      ///< its output, with the last shard
  bool is_summed_before = false;     ///< its gradient of the input, with the first shard
  std::size_t final_from = 0;        ///< after its backward pass, the arena is final from here on
  double flops = 0;                  ///< FLOPs of its forward pass
  /// Bytes in the memory that blocks share, where the output, or the layer's workspace, is computed again.
  std::optional<std::size_t> shared_output, shared_workspace;

  /// Bytes of the output, or of its gradient, that this rank has: all, or its rows.
  std::size_t held_bytes() const { return (is_sliced ? rows : format).bytes; }
  /// Bytes of the memory for them. Different outputs have different memory, even without rows.
  std::size_t memory_bytes() const { return std::max(held_bytes(), std::size_t{1}); }
  /// The layer computes the gradient of an input that another layer has computed.
  bool has_input_gradient() const {
    return has_layer && from != Wiring::kSample && done_before != kernels::Fusion::whole;
  }
};

/// The layers of a backend, as a plan needs them.
class StageLayers {
 public:
  virtual ~StageLayers() = default;
  virtual tensor::DataType activation_type() const = 0;
  /// True if values of both formats can be added element by element.
  virtual bool same_layout(const kernels::ActivationFormat& one, const kernels::ActivationFormat& other) const = 0;
  /// The output format of a layer before this part, which is not kept.
  virtual kernels::ActivationFormat output_of(const kernels::LayerSpec& spec,
                                              const kernels::ActivationFormat& input) = 0;
  /// Makes the layer of the next stage. `in_slices`: it computes the rows of each slice on its own, see RowSlices.
  /// Throws ConfigError if the layer does not fit its input.
  virtual kernels::Layer& add(const kernels::LayerSpec& spec, const kernels::ActivationFormat& input,
                              bool in_slices) = 0;
};

/// The plan of a model, or of some of its layers, for microbatches of `samples`.
struct StagePlan {
  std::vector<Stage> stages;
  kernels::ActivationFormat sample;  ///< format of a batch
  std::size_t given_bytes = 0;       ///< bytes of a batch before rounding; 0: it is not rounded
  std::size_t first_layer = 0;       ///< number in the model of the first layer here
  std::size_t layout_size = 0;       ///< elements of the arena
  bool has_loss = false;             ///< the last layer of the model is here
  RowPart rows;
  std::size_t head_slices = 0;      ///< last stages that are slices of the classes; 0: the head is whole
  std::size_t addends = 0;          ///< most shards of a sum
  std::size_t addend_bytes = 0;     ///< bytes of an addend after the first
  std::size_t gathered_bytes = 0;   ///< bytes of all rows of an output of which this rank has some
  std::size_t converted_bytes = 0;  ///< bytes of values between two layouts, as floats
  std::size_t spare_bytes = 0;      ///< bytes of a gradient that is then added to another one
  Recomputation recomputation;      ///< no blocks: all activations are kept
  std::size_t activation_bytes = 0;

  bool reads_samples() const { return first_layer == 0; }
  /// Other ranks have the other rows: they lie apart.
  bool has_some_rows() const { return rows.count < rows.slices; }
  /// Number in the model of a stage's layer, for spans.
  std::uint32_t layer_of(std::size_t stage) const;

  /// Stages [first, end).
  struct Range {
    std::size_t first = 0, end = 0;
  };
  /// The block that ends with this stage, if its activations are not there any more; else empty.
  Range block_before(std::size_t stage) const;
  /// True if `stage`, of the block that ends with `last`, is computed again.
  bool is_repeated(std::size_t stage, std::size_t last) const;
  /// The floating-point operations of all that is computed again in a backward pass.
  double repeated_flops() const;
  /// The parameters that each stage reads in a forward pass, or in a backward pass, with what is computed again before
  /// it.
  std::vector<std::vector<Elements>> reads(bool backward) const;
  /// The places of the arena from which on the gradients are final at some time of the backward pass; descending, from
  /// layout_size to 0.
  std::vector<std::size_t> places() const;

 private:
  /// The stage in whose memory this output lies; negative: in that of an addend.
  int memory_of(std::size_t stage) const;
};

/// Plans the layers ModelTensors::layers. `recomputes`: only the outputs of blocks of layers are kept. `sizes`: those
/// of the model's layers by which the blocks are chosen; empty: their own. Throws ConfigError if the layers do not fit
/// the sample shape.
StagePlan plan_stages(const Description& model, const ModelTensors& tensors, std::int64_t samples, bool recomputes,
                      std::span<const LayerMemory> sizes, StageLayers& layers);

}  // namespace distdl::model
