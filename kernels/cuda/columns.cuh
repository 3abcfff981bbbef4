// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/columns.hpp>
#include <distdl/kernels/cuda/launch.cuh>

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

/// Hands the sum of each column to reduce.finish(column, sum); see columns.hpp. Takes column_scratch<Reduce>(chunks) of
/// the device's scratch.
template <class Reduce>
void sum_columns(const Device& device, const ColumnChunks& chunks, const Reduce& reduce) {
  auto* partial = static_cast<typename Reduce::Sum*>(device.scratch());
  const std::int64_t across = (chunks.columns + kColumnsPerBlock - 1) / kColumnsPerBlock;
  const dim3 threads(kColumnsPerBlock, kColumnLanes);
  const dim3 blocks(static_cast<unsigned>(across), static_cast<unsigned>(chunks.count()));
  column_kernel<<<blocks, threads, 0, device.stream()>>>(chunks, reduce, partial);
  check(cudaGetLastError(), "start sums of columns");
  if (chunks.count() > 1)
    for_each(device, static_cast<std::size_t>(chunks.columns), FinishColumn<Reduce>{partial, chunks, reduce});
}

}  // namespace distdl::kernels::cuda
