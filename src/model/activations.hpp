// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <distdl/model/description.hpp>
#include <distdl/tensor/element.hpp>

namespace distdl::model {

/// Memory that a layer keeps from its forward to its backward pass.
struct LayerMemory {
  std::size_t bytes = 0;                                ///< bytes of its output
  std::size_t workspace = 0;                            ///< bytes of kernels::Layer::workspace()
  int from = Wiring::kSample, plus = Wiring::kNothing;  ///< layers whose outputs it reads
  bool in_place = false;                                ///< the output lies in the memory of the output of `from`
  bool with_previous = false;                           ///< the layer before computes it, too
  bool is_summed_later = false;  ///< its output is an addend of the next output for which this is false
};

/// Places of activations that are computed again before they are needed (Chen et al., "Training deep nets with
/// sublinear memory cost", 2016). The layers are divided into blocks. After a block, later layers read the output of
/// its last layer only. These outputs are kept. Everything else lies in memory that all blocks share in turn: in the
/// forward pass, and again in the backward pass, where a block's forward pass is repeated first.
struct Recomputation {
  std::vector<std::size_t> ends;  ///< end of each block, ascending: the number of the layer after its last one
  /// Offsets of each layer in the shared memory; nothing for a layer that keeps its output, or has no workspace.
  std::vector<std::optional<std::size_t>> outputs, workspaces;
  std::size_t shared = 0;  ///< bytes that the blocks share
  std::size_t kept = 0;    ///< bytes of the outputs that are kept

  std::size_t bytes() const { return shared + kept; }
};

/// Returns the blocks with which all this takes the least memory. Many short ones keep many outputs; the longest one
/// determines how much is shared. Depends on the wiring only, so that it needs no names. `sizes`: the bytes and
/// workspaces by which the blocks are chosen, where several plans must have the same ones.
Recomputation plan_recomputation(std::span<const LayerMemory> layers, std::span<const LayerMemory> sizes);
inline Recomputation plan_recomputation(std::span<const LayerMemory> layers) {
  return plan_recomputation(layers, layers);
}

/// Returns the bytes without recomputation.
std::size_t bytes_of(std::span<const LayerMemory> layers);

/// Estimates the memory that the layers of a model keep on a CPU: a backend may keep a little more, and do more layers
/// in place.
std::vector<LayerMemory> estimated_activations(const Description& model, std::int64_t samples, tensor::DataType type);

}  // namespace distdl::model
