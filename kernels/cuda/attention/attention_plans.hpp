// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <distdl/kernels/cuda/attention/attention.hpp>
#include <distdl/kernels/cuda/primitives/dnn_graph.hpp>
#include <distdl/tensor/element.hpp>

// Attention as cuDNN's graphs. They keep no matrix of scores in memory, or only in the workspace of backward.
namespace distdl::kernels::cuda {

/// The view (N, heads, T, D), as cuDNN describes it, of `heads` adjacent heads in rows of `row_heads` heads.
DnnView heads_view(const AttentionExtents& of, std::int64_t row_heads, std::int64_t heads);

/// The addresses of the heads in x or dx.
struct PackedHeads {
  const void* queries;
  const void* keys;
  const void* values;
};
PackedHeads packed_heads(const AttentionExtents& of, const void* x);

/// The arrays that attention reads and writes. x and dx: (N, T, heads + 2 kv_heads, D); y and dy: (N, T, heads, D).
/// Elements have 16 bits. If spec.rotary_base asks for it, the caller has rotated them.
struct AttentionForward {
  const void* x;
  void* y;
  float* logarithms;  ///< (N, heads, T): logarithm of the sum of the exponentials
};
struct AttentionBackward {
  const void* x;
  const void* y;
  const void* dy;
  const float* logarithms;
  float* means;         ///< (N, heads, T), written: the sum of y * dy over a head
  float* dqueries_sum;  ///< (N, heads, T, D), written; nullptr if the plans are deterministic
  void* dx;
};

/// cuDNN's plans for certain extents, which all layers with these extents share.
class AttentionPlans {
 public:
  /// Throws DnnRefusal if cuDNN has no plan within the limits.
  AttentionPlans(const AttentionExtents& of, tensor::DataType type, const DnnTarget& target, const DnnLimits& limits);

  std::size_t workspace_bytes() const;
  void run(cudnnHandle_t dnn, const AttentionForward& arrays, void* workspace) const;
  void run(cudnnHandle_t dnn, const AttentionBackward& arrays, void* workspace) const;

 private:
  AttentionExtents of_;
  bool is_deterministic_;
  DnnPlan forward_;
  DnnPlan backward_;
};

}  // namespace distdl::kernels::cuda
