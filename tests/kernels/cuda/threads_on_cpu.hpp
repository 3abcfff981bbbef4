// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <barrier>
#include <cassert>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

// Runs kernels themselves on the CPU, a thread for each of the GPU's, a block after the other: a missing barrier is a
// data race that the thread sanitizer sees. Include this before a file of kernels (.._kernels.cuh): it gives their
// words a meaning in plain C++. Only a warp's butterfly and a block's barrier are here, and 1024 threads at most.

struct KernelIndex {  // CUDA's dim3 and uint3
  unsigned x = 1, y = 1, z = 1;
};

namespace distdl::kernels::cuda::test {

class BlockOfThreads {
 public:
  static constexpr unsigned kWarp = 32;
  explicit BlockOfThreads(unsigned threads)
      : barrier_(threads),
        exchanged_(threads),
        gathered_{decltype(gathered_)::value_type(threads), decltype(gathered_)::value_type(threads)} {
    assert(threads % kWarp == 0);
    for (unsigned warp = 0; warp < threads / kWarp; ++warp)
      warps_.push_back(std::make_unique<std::barrier<>>(static_cast<std::ptrdiff_t>(kWarp)));
  }
  void meet() { barrier_.arrive_and_wait(); }
  /// What the thread of the same warp gives whose number differs in the bits of `mask`.
  int exchange(unsigned thread, int value, int mask) {
    auto& warp = *warps_[thread / kWarp];
    exchanged_[thread] = value;
    warp.arrive_and_wait();
    const int other = exchanged_[thread ^ static_cast<unsigned>(mask)];
    warp.arrive_and_wait();
    return other;
  }
  /// What each thread of the warp gives. turn: 0, 1, 2, ..
  template <std::size_t kCount>
  std::array<std::array<std::uint32_t, kCount>, kWarp> gather(unsigned thread, unsigned turn,
                                                              const std::array<std::uint32_t, kCount>& words) {
    static_assert(kCount <= kMostWords);
    auto& gathered = gathered_[turn % 2];  // of the two, nobody can be more than one ahead
    std::copy(words.begin(), words.end(), gathered[thread].begin());
    warps_[thread / kWarp]->arrive_and_wait();
    std::array<std::array<std::uint32_t, kCount>, kWarp> all;
    for (unsigned lane = 0; lane < kWarp; ++lane)
      std::copy_n(gathered[thread / kWarp * kWarp + lane].begin(), kCount, all[lane].begin());
    return all;
  }

 private:
  static constexpr std::size_t kMostWords = 6;
  std::barrier<> barrier_;
  std::vector<std::unique_ptr<std::barrier<>>> warps_;
  std::vector<int> exchanged_;
  std::array<std::vector<std::array<std::uint32_t, kMostWords>>, 2> gathered_;
};

/// Of the calling thread.
struct KernelThread {
  BlockOfThreads* block = nullptr;
  unsigned number = 0;
  unsigned gathers = 0;  ///< so far
};
inline thread_local KernelThread this_thread;

}  // namespace distdl::kernels::cuda::test

// NOLINTBEGIN: CUDA's names
inline thread_local KernelIndex threadIdx, blockIdx, blockDim, gridDim;
inline void __syncthreads() {
  distdl::kernels::cuda::test::this_thread.block->meet();
}
inline int __shfl_xor_sync(unsigned, int value, int mask) {
  const auto& thread = distdl::kernels::cuda::test::this_thread;
  return thread.block->exchange(thread.number, value, mask);
}
#define __device__
#define __global__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(threads)
// NOLINTEND

namespace distdl::kernels::cuda::test {

/// kernel<<<grid, block>>>() as run(grid, block, [&] { kernel(); }).
template <class Kernel>
void run(KernelIndex grid, KernelIndex block, const Kernel& kernel) {
  const unsigned count = block.x * block.y;
  for (unsigned i = 0; i < grid.x * grid.y; ++i) {
    BlockOfThreads shared(count);
    std::vector<std::jthread> threads;
    for (unsigned number = 0; number < count; ++number)
      threads.emplace_back([&, number] {
        this_thread = {&shared, number};
        threadIdx = {number % block.x, number / block.x, 0};
        blockIdx = {i % grid.x, i / grid.x, 0};
        blockDim = block;
        gridDim = grid;
        kernel();
      });
  }
}

}  // namespace distdl::kernels::cuda::test
