// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <distdl/kernels/cuda/primitives/column_kernels.cuh>
#include <distdl/kernels/cuda/primitives/launch.cuh>

namespace distdl::kernels::cuda {

/// Passes the sum of each column to reduce.finish(column, sum); see columns.hpp. Uses column_scratch<Reduce>(chunks) of
/// the device's scratch memory.
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
