// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <distdl/kernels/cuda/attention/attention.hpp>
#include <distdl/kernels/cuda/attention/dnn_graph.hpp>
#include <distdl/tensor/element.hpp>

// Attention as cuDNN's graphs, which keep no matrix of scores in memory, or only in backward's workspace.
namespace distdl::kernels::cuda {

/// `heads` heads beside each other in rows of `row_heads`, as cuDNN counts: (N, heads, T, D).
DnnView heads_view(const AttentionExtents& of, std::int64_t row_heads, std::int64_t heads);

/// Where the heads start in x or dx.
struct PackedHeads {
  const void* queries;
  const void* keys;
  const void* values;
};
PackedHeads packed_heads(const AttentionExtents& of, const void* x);

/// What attention reads and writes. x: (N, T, heads + 2 kv_heads, D), as dx; y: (N, T, heads, D), as dy; each 16 bits
/// an element. Turned by the caller, where spec.rotary_base says so.
struct AttentionForward {
  const void* x;
  void* y;
  float* logarithms;  ///< (N, heads, T): of the sum of the exponentials
};
struct AttentionBackward {
  const void* x;
  const void* y;
  const void* dy;
  const float* logarithms;
  float* means;         ///< (N, heads, T), to be written: the sum of y * dy over a head
  float* dqueries_sum;  ///< (N, heads, T, D), likewise; nullptr where the plans are deterministic
  void* dx;
};

/// cuDNN's plans for one layer's extents, which all layers with them share.
class AttentionPlans {
 public:
  /// Throws DnnRefusal where cuDNN has no way within the limits.
  AttentionPlans(const AttentionExtents& of, tensor::DataType type, const DnnTarget& target, const DnnLimits& limits);

  std::size_t workspace_bytes() const;
  void run(cudnnHandle_t dnn, const AttentionForward& arrays, void* workspace) const;
  void run(cudnnHandle_t dnn, const AttentionBackward& arrays, void* workspace) const;

  bool is_for(const AttentionExtents& of, tensor::DataType type) const { return of_ == of && type_ == type; }

 private:
  AttentionExtents of_;
  tensor::DataType type_;
  bool is_deterministic_;
  DnnPlan forward_;
  DnnPlan backward_;
};

}  // namespace distdl::kernels::cuda
