// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/layer_spec.hpp>

namespace distdl::kernels {

/// Floating-point operations of a layer's passes. A multiplication and an addition are two.
struct LayerFlops {
  double forward = 0;
  double backward_input = 0, backward_weights = 0;  ///< for the gradient of the input, and of the weights
};

/// Counted are the matrix products, as in PaLM (Chowdhery et al. 2022, appendix B) and Megatron-LM (Narayanan et al.,
/// SC 2021): those of linear layers, of convolutions (padding counts as values), and the two of attention, q k^T and
/// p v, for all pairs of queries and keys, also where a causal layer masks them. Attention's backward pass has four.
/// All else counts as 0: embeddings, which look up rows, biases, norms, activations, softmax, rotations, pooling.
LayerFlops flops_of(const LayerSpec& spec, const tensor::Shape& input);

}  // namespace distdl::kernels
