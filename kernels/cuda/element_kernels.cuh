// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/reduction.hpp>

namespace distdl::kernels::cuda {

template <class Body>
__global__ void for_each_kernel(std::size_t count, Body body) {
  std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) body(i);
}

/// One block per result: result r is the sum of reduce(r, j) over all j below `terms`, handed to reduce.finish(r, sum).
template <class Reduce>
__global__ void __launch_bounds__(kLanes) sum_kernel(std::int64_t terms, Reduce reduce) {
  __shared__ double partial[kLanes];
  const int lane = static_cast<int>(threadIdx.x);
  partial[lane] = lane_sum(reduce, blockIdx.x, lane, terms);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) partial[lane] += partial[lane + half];
  }
  if (lane == 0) reduce.finish(blockIdx.x, partial[0]);
}

}  // namespace distdl::kernels::cuda
