// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/cuda_error.hpp>
#include <distdl/kernels/cuda/device.hpp>
#include <distdl/kernels/cuda/reduction.hpp>

namespace distdl::kernels::cuda {

inline constexpr int kThreads = 256;

template <class Body>
__global__ void for_each_kernel(std::size_t count, Body body) {
  std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) body(i);
}

/// body(i) for every i below count, in any order, on the current GPU.
template <class Body>
void for_each(cudaStream_t stream, std::size_t count, const Body& body) {
  if (count == 0) return;
  auto blocks = static_cast<unsigned>(std::min<std::size_t>((count + kThreads - 1) / kThreads, 65535));
  for_each_kernel<<<blocks, kThreads, 0, stream>>>(count, body);
  check(cudaGetLastError(), "start a kernel");
}

template <class Body>
void for_each(const Device& device, std::size_t count, const Body& body) {
  for_each(device.stream(), count, body);
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

/// See reduction.hpp: a fixed order of additions, so the same bits in every run.
template <class Reduce>
void sum_each(const Device& device, std::int64_t results, std::int64_t terms, const Reduce& reduce) {
  if (results == 0) return;
  sum_kernel<<<static_cast<unsigned>(results), kLanes, 0, device.stream()>>>(terms, reduce);
  check(cudaGetLastError(), "start a sum");
}

}  // namespace distdl::kernels::cuda
