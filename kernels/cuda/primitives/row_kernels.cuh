// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <distdl/kernels/cuda/primitives/lanes.hpp>

// The lanes of lanes.hpp on the GPU, and the kernels that run bodies with them. rows.cuh launches them;
// tests/kernels/cuda runs them with threads of the CPU.
namespace distdl::kernels::cuda {

inline constexpr int kRowThreads = 256;
inline constexpr int kWarp = 32;
inline constexpr int kWarps = kRowThreads / kWarp;  ///< warps of a block

template <class State>
__device__ State of_other_lane(const State& state, int mask) {
  static_assert(std::is_trivially_copyable_v<State> && sizeof(State) % sizeof(int) == 0);
  int words[sizeof(State) / sizeof(int)];
  State other;
  memcpy(words, &state, sizeof(State));
  for (int& word : words) word = __shfl_xor_sync(0xffffffffu, word, mask);
  memcpy(&other, words, sizeof(State));
  return other;
}

/// A butterfly over 2 * half lanes. The lower lane's state is the first argument, so that all lanes get the same bits
/// even if merging is not commutative.
template <class State, class Merge>
__device__ State merged(State state, int half, const Merge& merge) {
  for (; half > 0; half /= 2) {
    const State other = of_other_lane(state, half);
    state = (threadIdx.x & static_cast<unsigned>(half)) == 0 ? merge(state, other) : merge(other, state);
  }
  return state;
}

/// The lanes of one warp.
struct WarpLanes {
  template <class Visit>
  __device__ void each(std::int64_t count, const Visit& visit) const {
    for (std::int64_t j = threadIdx.x % kWarp; j < count; j += kWarp) visit(j);
  }
  template <class State, class Visit, class Merge>
  __device__ State reduce(std::int64_t count, State state, const Visit& visit, const Merge& merge) const {
    each(count, [&](std::int64_t j) { visit(state, j); });
    return merged(state, kWarp / 2, merge);
  }
  template <class Act>
  __device__ void once(const Act& act) const {
    if (threadIdx.x % kWarp == 0) act();
  }
};

/// The lanes of a block of kRowThreads.
struct BlockLanes {
  template <class Visit>
  __device__ void each(std::int64_t count, const Visit& visit) const {
    for (std::int64_t j = threadIdx.x; j < count; j += kRowThreads) visit(j);
  }
  template <class State, class Visit, class Merge>
  __device__ State reduce(std::int64_t count, State state, const Visit& visit, const Merge& merge) const {
    __shared__ __align__(16) unsigned char workspace[kWarps * sizeof(State)];
    auto* of_warp = reinterpret_cast<State*>(workspace);
    each(count, [&](std::int64_t j) { visit(state, j); });
    state = merged(state, kWarp / 2, merge);
    __syncthreads();  // an earlier result may not have been read yet
    if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = state;
    __syncthreads();
    return merged(of_warp[threadIdx.x % kWarps], kWarps / 2, merge);
  }
  template <class Act>
  __device__ void once(const Act& act) const {
    if (threadIdx.x == 0) act();
  }
};

template <class Body>
__global__ void __launch_bounds__(kRowThreads) warp_rows_kernel(std::int64_t rows, Body body) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row < rows) body(row, WarpLanes{});
}

template <class Body>
__global__ void __launch_bounds__(kRowThreads) block_rows_kernel(Body body) {
  body(std::int64_t{blockIdx.x}, BlockLanes{});
}

}  // namespace distdl::kernels::cuda
