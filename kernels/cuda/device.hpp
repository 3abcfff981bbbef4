// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include <distdl/kernels/cuda/cuda_handles.hpp>
#include <distdl/kernels/cuda/number_fault.hpp>
#include <distdl/kernels/noise.hpp>
#include <distdl/tensor/buffer.hpp>

namespace distdl::kernels::cuda {

/// One GPU as one rank uses it: a single stream, so that all work happens in the order of the calls, and the handles of
/// the libraries on it. Every call first makes the GPU the calling thread's current one.
class Device {
 public:
  explicit Device(int ordinal);
  ~Device() { drain(stream_.get()); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  void make_current() const;
  cudaStream_t stream() const;
  cublasHandle_t blas() const;
  cublasLtHandle_t blas_lt() const;
  cudnnHandle_t dnn() const;

  /// Until all work is done. Throws what went wrong in it: CUDA's error, or ConfigError for a number out of range.
  void wait() const;

  /// Zeroed memory of the GPU, aligned to 256 bytes.
  tensor::Buffer allocate(std::size_t bytes) const;
  /// The same, not zeroed: does not wait for the work on the GPU.
  tensor::Buffer allocate_unset(std::size_t bytes) const;
  /// Zeroed host memory that the GPU reads and writes without a detour.
  tensor::Buffer allocate_pinned(std::size_t bytes) const;

  /// Memory that one call may use until the next: layers run one after the other and share it.
  void reserve_scratch(std::size_t bytes);
  void* scratch() const noexcept { return scratch_.data(); }
  std::size_t scratch_bytes() const noexcept { return scratch_.bytes(); }

  /// Where kernels report a bad label or row of a table; host memory that the GPU can write.
  NumberFault* number_fault() const noexcept { return static_cast<NumberFault*>(number_fault_.data()); }

  /// From what the layers' next passes draw.
  void set_noise(const Noise& noise) noexcept { noise_ = noise; }
  const Noise& noise() const noexcept { return noise_; }

  /// Versions and GPU: what decides the bits of a result.
  std::string description() const;

 private:
  int ordinal_;
  Stream stream_;  // before the handles that work on it
  Blas blas_;
  BlasLt blas_lt_;
  Dnn dnn_;
  tensor::Buffer scratch_;
  tensor::Buffer number_fault_;
  Noise noise_;
};

}  // namespace distdl::kernels::cuda
