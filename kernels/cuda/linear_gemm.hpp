// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace distdl::kernels::cuda {

/// One product C = op(A) op(B) as BLAS counts: column-major, op(A): m x k, op(B): k x n, C: m x n.
struct Gemm {
  bool transpose_a;
  bool transpose_b;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::int64_t lda;
  std::int64_t ldb;
  std::int64_t ldc;
};

/// The products of a linear layer. Its arrays are row-major, x (samples, in), weight (out, in), y (samples, out); to
/// BLAS each of them is its own transpose.
struct LinearGemms {
  std::int64_t samples;
  std::int64_t in;
  std::int64_t out;

  /// A = weight, B = x, C = y
  constexpr Gemm forward() const { return {true, false, out, samples, in, in, in, out}; }
  /// A = weight, B = dy, C = dx
  constexpr Gemm backward_input() const { return {false, false, in, samples, out, in, out, in}; }
  /// A = x, B = dy, C = gradient of weight
  constexpr Gemm backward_weights() const { return {false, true, in, out, samples, in, out, in}; }
};

}  // namespace distdl::kernels::cuda
