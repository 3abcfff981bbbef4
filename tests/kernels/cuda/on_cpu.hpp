// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <distdl/kernels/cuda/primitives/columns.hpp>
#include <distdl/kernels/cuda/primitives/gemm.hpp>
#include <distdl/kernels/cuda/primitives/lanes.hpp>
#include <distdl/kernels/cuda/primitives/reduction.hpp>

// Runs on the CPU what the GPU's kernels are made of: the same functors in the same order of additions as launch.cuh,
// rows.cuh and columns.cuh.
namespace distdl::kernels::cuda::test {

template <class Body>
void for_each(std::size_t count, const Body& body) {
  for (std::size_t i = 0; i < count; ++i) body(i);
}

template <class Body>
void fill_each(std::size_t count, const Body& body) {
  for (std::size_t i = 0; i < count; ++i) body.target()[i] = body.value(i);
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

/// Lanes of so many warps of 32, one after the other, the last one first: a body that takes what another lane has
/// written without a reduce() between fails.
template <int kWarps>
struct LanesOnCpu {
  template <class Visit>
  void each(std::int64_t count, const Visit& visit) const {
    for (std::int64_t lane = kLaneCount; lane-- > 0;)
      for (std::int64_t j = lane; j < count; j += kLaneCount) visit(j);
  }
  template <class State, class Visit, class Merge>
  State reduce(std::int64_t count, const State& start, const Visit& visit, const Merge& merge) const {
    std::vector<State> states(kLaneCount, start);
    for (std::int64_t lane = 0; lane < kLaneCount; ++lane)
      for (std::int64_t j = lane; j < count; j += kLaneCount) visit(states[lane], j);
    for (int warp = 0; warp < kWarps; ++warp)
      for (int half = 16; half > 0; half /= 2)
        for (int lane = 32 * warp; lane < 32 * warp + half; ++lane)
          states[lane] = merge(states[lane], states[lane + half]);
    for (int half = kWarps / 2; half > 0; half /= 2)
      for (int warp = 0; warp < half; ++warp) states[32 * warp] = merge(states[32 * warp], states[32 * (warp + half)]);
    return states[0];
  }
  template <class Act>
  void once(const Act& act) const {
    act();
  }
  static constexpr std::int64_t kLaneCount = std::int64_t{32} * kWarps;
};

template <class Body>
void for_each_row(std::int64_t rows, const Body& body) {
  for (std::int64_t row = 0; row < rows; ++row) body(row, LanesOnCpu<1>{});
}

template <class Body>
void for_each_long_row(std::int64_t rows, const Body& body) {
  for (std::int64_t row = 0; row < rows; ++row) body(row, LanesOnCpu<8>{});
}

template <class Reduce>
void sum_columns(const ColumnChunks& chunks, const Reduce& reduce) {
  std::vector<typename Reduce::Sum> partial(static_cast<std::size_t>(chunks.count() * chunks.columns));
  for (std::int64_t chunk = 0; chunk < chunks.count(); ++chunk)
    for (std::int64_t column = 0; column < chunks.columns; ++column) {
      std::array<typename Reduce::Sum, kColumnLanes> sums{};
      for (int lane = 0; lane < kColumnLanes; ++lane) sums[lane] = column_lane_sum(reduce, chunks, chunk, column, lane);
      for (int half = kColumnLanes / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
      partial[chunk * chunks.columns + column] = sums[0];
    }
  for_each(static_cast<std::size_t>(chunks.columns), FinishColumn<Reduce>{partial.data(), chunks, reduce});
}

/// BLAS's definition of sgemm, without beta.
inline void multiply(const Gemm& gemm, float alpha, const float* a, const float* b, float* c) {
  for (std::int64_t row = 0; row < gemm.m; ++row)
    for (std::int64_t column = 0; column < gemm.n; ++column) {
      double sum = 0;
      for (std::int64_t k = 0; k < gemm.k; ++k) {
        std::int64_t in_a = gemm.transpose_a ? k + row * gemm.lda : row + k * gemm.lda;
        std::int64_t in_b = gemm.transpose_b ? column + k * gemm.ldb : k + column * gemm.ldb;
        sum += double{a[in_a]} * b[in_b];
      }
      c[row + column * gemm.ldc] = static_cast<float>(alpha * sum);
    }
}

inline void multiply(const GemmBatch& batch, std::int64_t count, float alpha, const float* a, const float* b,
                     float* c) {
  for (std::int64_t i = 0; i < count; ++i)
    multiply(batch.gemm, alpha, a + i * batch.stride_a, b + i * batch.stride_b, c + i * batch.stride_c);
}

}  // namespace distdl::kernels::cuda::test
