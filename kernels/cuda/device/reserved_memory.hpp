// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <cuda_runtime_api.h>

#include <distdl/tensor/granules.hpp>

namespace distdl::kernels::cuda {

/// Addresses of a GPU, which have memory only where it is committed: CUDA's virtual memory management (CUDA C++
/// Programming Guide). Other processes and NICs cannot be given such memory as that of cudaMalloc: what is sent lies
/// elsewhere.
class ReservedMemory {
 public:
  /// Throws ConfigError if the GPU or its driver has no such memory, and where addresses do not suffice. The GPU must
  /// be the thread's current one in all calls.
  ReservedMemory(int gpu, std::size_t bytes);
  /// Waits for the GPU.
  ~ReservedMemory();
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;

  std::byte* data() const { return data_; }
  /// Zeroes what is new, in `stream`. Throws ConfigError if the GPU's memory is full.
  void commit(std::span<std::byte> memory, cudaStream_t stream);
  /// No work on the GPU may use what is given back.
  void discard(std::span<std::byte> memory);

 private:
  std::size_t place_of(const std::byte* address) const { return static_cast<std::size_t>(address - data_); }
  std::size_t reserved_bytes() const;

  int gpu_;
  std::size_t bytes_;
  tensor::Granules granules_;
  std::byte* data_ = nullptr;
};

}  // namespace distdl::kernels::cuda
