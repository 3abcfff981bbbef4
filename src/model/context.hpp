// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/model/description.hpp>

namespace distdl::model {

/// Throws ConfigError, which names the nearest choice that is possible, unless the sequences of this model can be
/// divided into so many chunks of equal length: a model of tokens whose attention is causal.
void check_context(const Description& model, std::int64_t chunks);

/// Returns the model of one chunk of the sequences, which has the same tensors. Before each attention layer it has a
/// kernels::JoinContext layer.
Description chunk_of(const Description& model, std::int64_t chunk, std::int64_t chunks);

/// Returns the same tensors as tensors of chunk_of().
ModelTensors tensors_of_chunk(const Description& model, ModelTensors tensors);

/// Returns the chunk with this place in sums over chunks, whose order is: the first, the last, the second, the last but
/// one, ... A chunk attends to all that come before it, so ranks that have some of these leaves each, one after the
/// other, have about the same work.
std::size_t chunk_of_leaf(std::size_t leaf, std::size_t chunks);
std::size_t leaf_of_chunk(std::size_t chunk, std::size_t chunks);

}  // namespace distdl::model
