// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/primitives/columns.hpp>

namespace distdl::kernels::cuda {

/// Blocks of kColumnsPerBlock x kColumnLanes threads; grid: (blocks of columns, chunks).
template <class Reduce>
__global__ void __launch_bounds__(kColumnsPerBlock* kColumnLanes)
    column_kernel(ColumnChunks chunks, Reduce reduce, typename Reduce::Sum* partial) {
  using Sum = typename Reduce::Sum;
  __shared__ Sum sums[kColumnLanes][kColumnsPerBlock];
  const std::int64_t column = std::int64_t{blockIdx.x} * kColumnsPerBlock + threadIdx.x;
  const bool is_column = column < chunks.columns;
  const auto lane = static_cast<int>(threadIdx.y);
  sums[lane][threadIdx.x] = is_column ? column_lane_sum(reduce, chunks, blockIdx.y, column, lane) : Sum{};
  for (int half = kColumnLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) sums[lane][threadIdx.x] += sums[lane + half][threadIdx.x];
  }
  if (lane > 0 || !is_column) return;
  if (chunks.count() == 1)
    reduce.finish(column, sums[0][threadIdx.x]);
  else
    partial[blockIdx.y * chunks.columns + column] = sums[0][threadIdx.x];
}

}  // namespace distdl::kernels::cuda
