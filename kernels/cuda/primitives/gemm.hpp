// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/tensor/element.hpp>

namespace distdl::kernels::cuda {

/// A product C = op(A) op(B) in the terms of BLAS: column-major, op(A): m x k, op(B): k x n, C: m x n. BLAS sees a
/// row-major array as its transpose.
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

/// `count` products of this kind, with fixed distances between consecutive matrices.
struct GemmBatch {
  Gemm gemm;
  std::int64_t stride_a;
  std::int64_t stride_b;
  std::int64_t stride_c;
};

/// The products of a linear layer. Its arrays are row-major: x (rows, in), weight (out, in), y (rows, out).
struct LinearGemms {
  std::int64_t rows;
  std::int64_t in;
  std::int64_t out;

  /// A = weight, B = x, C = y
  constexpr Gemm forward() const { return {true, false, out, rows, in, in, in, out}; }
  /// A = weight, B = dy, C = dx
  constexpr Gemm backward_input() const { return {false, false, in, rows, out, in, out, in}; }
  /// A = x, B = dy, C = gradient of weight
  constexpr Gemm backward_weights() const { return {false, true, in, out, rows, in, out, in}; }
};

class Device;

/// Types of the matrices of a product, which is accumulated in fp32.
struct ProductTypes {
  tensor::DataType operands = tensor::DataType::float32;
  tensor::DataType result = tensor::DataType::float32;
};

/// C = alpha op(A) op(B). Products of floats are plain fp32 unless the device allows TF32.
void multiply(const Device& device, const Gemm& gemm, const ProductTypes& types, const void* a, const void* b, void* c);
void multiply(const Device& device, const GemmBatch& batch, std::int64_t count, float alpha, const float* a,
              const float* b, float* c);

}  // namespace distdl::kernels::cuda
