// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/linear_gemm.hpp>
#include <distdl/kernels/cuda/reduction.hpp>

// Runs on the CPU what the GPU's kernels are made of: the same functors in the same order of additions as launch.cuh.
namespace distdl::kernels::cuda::test {

template <class Body>
void for_each(std::size_t count, const Body& body) {
  for (std::size_t i = 0; i < count; ++i) body(i);
}

template <class Reduce>
void sum_each(std::int64_t results, std::int64_t terms, const Reduce& reduce) {
  for (std::int64_t r = 0; r < results; ++r) {
    std::array<double, kLanes> partial{};
    for (int lane = 0; lane < kLanes; ++lane) partial[lane] = lane_sum(reduce, r, lane, terms);
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
    reduce.finish(r, partial[0]);
  }
}

/// BLAS's definition of sgemm, without alpha and beta.
inline void multiply(const Gemm& gemm, const float* a, const float* b, float* c) {
  for (std::int64_t row = 0; row < gemm.m; ++row)
    for (std::int64_t column = 0; column < gemm.n; ++column) {
      double sum = 0;
      for (std::int64_t k = 0; k < gemm.k; ++k) {
        std::int64_t in_a = gemm.transpose_a ? k + row * gemm.lda : row + k * gemm.lda;
        std::int64_t in_b = gemm.transpose_b ? column + k * gemm.ldb : k + column * gemm.ldb;
        sum += double{a[in_a]} * b[in_b];
      }
      c[row + column * gemm.ldc] = static_cast<float>(sum);
    }
}

}  // namespace distdl::kernels::cuda::test
