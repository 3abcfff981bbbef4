// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/device/device.hpp>
#include <distdl/kernels/cuda/primitives/element_kernels.cuh>

namespace distdl::kernels::cuda {

inline constexpr int kThreads = 256;

/// Runs body(i) for every i below count, in any order, on the current GPU.
template <class Body>
void for_each(cudaStream_t stream, std::size_t count, const Body& body) {
  if (count == 0) return;
  auto blocks = static_cast<unsigned>(std::min<std::size_t>((count + kThreads - 1) / kThreads, 65535));
  for_each_kernel<<<blocks, kThreads, 0, stream>>>(count, body);
  check(cudaGetLastError(), "start a kernel");
}

/// Sets body.target()[i] = body.value(i) for every i below count. value(i) may read only element i of the target.
template <class Body>
void fill_each(const Device& device, std::size_t count, const Body& body) {
  constexpr std::size_t kOfBlock = std::size_t{kThreads} * kAtOnce;
  if (count == 0) return;
  fill_kernel<<<static_cast<unsigned>((count + kOfBlock - 1) / kOfBlock), kThreads, 0, device.stream()>>>(count, body);
  check(cudaGetLastError(), "start a kernel");
}

template <class Body>
void for_each(const Device& device, std::size_t count, const Body& body) {
  for_each(device.stream(), count, body);
}

/// Uses a fixed order of additions, see reduction.hpp, so the bits are the same in every run.
template <class Reduce>
void sum_each(const Device& device, std::int64_t results, std::int64_t terms, const Reduce& reduce) {
  if (results == 0) return;
  sum_kernel<<<static_cast<unsigned>(results), kLanes, 0, device.stream()>>>(terms, reduce);
  check(cudaGetLastError(), "start a sum");
}

}  // namespace distdl::kernels::cuda
