// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/primitives/reduction.hpp>

namespace distdl::kernels::cuda {

template <class Body>
__global__ void for_each_kernel(std::size_t count, Body body) {
  std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) body(i);
}

inline constexpr int kAtOnce = 4;

/// Fills an array: body.target()[i] = body.value(i). A thread reads several elements before it writes one, so that
/// small elements also use the whole bandwidth. The blocks must cover `count` elements, kAtOnce per thread.
template <class Body>
__global__ void fill_kernel(std::size_t count, Body body) {
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x * kAtOnce + threadIdx.x;
  float values[kAtOnce];
  DISTDL_UNROLL
  for (int k = 0; k < kAtOnce; ++k) {
    const std::size_t i = first + static_cast<std::size_t>(k) * blockDim.x;
    values[k] = i < count ? body.value(i) : 0.0f;
  }
  DISTDL_UNROLL
  for (int k = 0; k < kAtOnce; ++k) {
    const std::size_t i = first + static_cast<std::size_t>(k) * blockDim.x;
    if (i < count) body.target()[i] = values[k];
  }
}

/// One block per result: result r is the sum of reduce(r, j) over all j below `terms`. It is passed to reduce.finish(r,
/// sum).
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
