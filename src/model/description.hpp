// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <distdl/kernels/layer_spec.hpp>
#include <distdl/tensor/arena.hpp>

namespace distdl::model {

/// The initial values of a layer's weight, if they differ from PyTorch's default. The bias is then initialized with 0.
struct Start {
  kernels::Init init = kernels::Init::normal;
  float deviation = 0.02f;
};

/// How the products of a layer are divided among shards, see tensor_shards.hpp.
enum class Split {
  outputs,  ///< begins branches: each shard computes some of the outputs, from the whole input
  inputs,   ///< ends them: each shard has some of the inputs, and the outputs are summed
  entries,  ///< for an embedding: each shard has some rows of the table, and the outputs are summed
  values,   ///< between these: each shard has the values that belong to its own input
};
constexpr bool sums_outputs(Split split) {
  return split == Split::inputs || split == Split::entries;
}

/// The part of a divided layer that one shard has.
struct Shard {
  /// Rows of the weight; with Split::inputs columns, or input channels.
  struct Range {
    std::int64_t first = 0, count = 0;
  };
  Split split = Split::outputs;
  std::string of;           ///< the layer; its tensors' names are those of the checkpoint
  std::int64_t extent = 0;  ///< rows, columns or channels of its weight
  std::size_t tensors = 1;  ///< number of tensors; its bias belongs to the last shard of Split::inputs
  std::vector<Range> ranges;
  std::int64_t count = 1;  ///< number of all shards
};

struct NamedLayer {
  std::string name;  ///< "conv1"; its tensors are "conv1.weight", "conv1.bias"
  kernels::LayerSpec spec;
  std::string from{};    ///< the layer whose output it takes; empty: the previous one in the list
  std::string plus{};    ///< the layer whose output is added to its own output, as in residual networks; empty: none
  std::string shares{};  ///< the layer whose "weight" it takes for its own, of the same shape; empty: none
  std::optional<Start> start{};
  std::optional<Split> split{};         ///< for a linear layer, convolution or embedding that can be divided
  std::optional<std::size_t> branch{};  ///< in a divided model: the number of the branch it is in
  std::optional<Shard> shard{};         ///< the part of a divided layer that it is; see wire()
};

/// The chunks of the sequences that a rank has: `count` leaves from `first` on, see context.hpp.
struct ContextPart {
  std::int64_t chunks = 1;
  std::int64_t first = 0, count = 1;
};

/// The slices of the rows of sequences that a rank has of those layers that exist once in a divided model: `count` of
/// `slices`, from `first` on. Slice s of n rows has [n s / slices, n (s + 1) / slices).
struct RowPart {
  std::int64_t slices = 1;
  std::int64_t first = 0, count = 1;
};

/// A model as a list of layers, in order. The last one computes the logits or other predictions for the loss.
struct Description {
  std::string name;
  tensor::Shape sample;      ///< (C, H, W) for images, (T) for tokens
  std::int64_t classes = 0;  ///< number of classes or of entries in the vocabulary
  std::vector<NamedLayer> layers;
  kernels::LossSpec loss{};
  ContextPart context{};
  RowPart rows{};
};

/// The inputs of each layer: indices of layers, or kSample for the sample itself.
struct Wiring {
  static constexpr int kSample = -1, kNothing = -2;
  struct Layer {
    int from = kSample;
    int plus = kNothing;
    tensor::Shape input, output;
    /// All shards of a divided layer; empty for most layers. The last shard of Split::inputs or Split::entries has
    /// those whose outputs are summed; the first shard of Split::outputs has those whose gradients of the input are
    /// summed. The sums follow Backend::sum().
    std::vector<int> shards;
  };
  std::vector<Layer> layers;
};
/// Returns the wiring for microbatches of so many samples. Shards of one layer follow each other; where their outputs
/// are summed, the last one has the layer's name, too, and alone adds the output that `plus` names. Throws ConfigError
/// that names a layer that does not fit, or that refers to a layer that is not before it.
Wiring wire(const Description& model, std::int64_t samples);

/// Layers [first, end) of a model.
struct LayerRange {
  std::size_t first = 0, end = 0;
  bool operator==(const LayerRange&) const = default;
};

/// One tensor of the model, its place in the arenas, and its initial values.
struct ModelTensor {
  tensor::TensorView view;
  kernels::ParameterSpec spec;
  std::size_t layer = 0;   ///< index in Description::layers
  std::size_t number = 0;  ///< number of the whole tensor in the whole model: the initial values depend on it
  bool shared = false;     ///< it is the tensor of an earlier layer of these
  /// The layer outside of these that has the same tensor: a later one, to whose gradient this one's is added, or, if it
  /// is borrowed, the earlier one that owns it.
  std::optional<std::size_t> elsewhere{};
};

/// The tensors of a model's layers, or of some of them, in their order, in one arena. Borrowed ones are at its end.
/// The parts of a divided tensor follow each other.
struct ModelTensors {
  tensor::ArenaLayout layout;
  std::vector<ModelTensor> tensors;
  LayerRange layers;
  bool has_totals = true;  ///< true for that one of the parts in an arena that writes the tail of the gradients
};
ModelTensors tensors_of(const Description& model);
/// The number of trainable values. Shared ones count once.
std::size_t parameter_count(const ModelTensors& tensors);

/// Writes the initial values. They are a pure function of the seed and the place in the model, the same on every rank,
/// backend and machine. Parts have the values of their whole tensors. Calls `written`, if there is one, after each
/// tensor.
void initialize(const ModelTensors& model, std::uint64_t seed, std::span<float> arena,
                const std::function<void()>& written = {});

}  // namespace distdl::model
