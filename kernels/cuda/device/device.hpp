// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <distdl/kernels/cuda/device/cuda_handles.hpp>
#include <distdl/kernels/cuda/device/plan_cache.hpp>
#include <distdl/kernels/cuda/layers/number_fault.hpp>
#include <distdl/kernels/rng_key.hpp>
#include <distdl/tensor/buffer.hpp>
#include <distdl/tensor/element.hpp>

namespace distdl::kernels::cuda {

class AttentionPlans;
class ConvolutionPlans;

struct Arithmetic {
  tensor::DataType activations = tensor::DataType::float32;
  bool allows_tf32 = false;      ///< products of floats may round their operands to TF32
  bool is_deterministic = true;  ///< the same bits in every run
};

/// Memory of the device that all layers share, because they run one after the other. It is valid during one call.
enum class Workspace { scratch, x, y, dy, dx };  ///< for all but scratch see adapted.hpp

/// One GPU as used by one rank: a single stream, in which all work runs in the order of the calls, and the handles of
/// the libraries on it. Every call first makes the GPU the calling thread's current one.
class Device {
 public:
  Device(int ordinal, const Arithmetic& arithmetic);
  ~Device() { drain(stream_.get()); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int ordinal() const noexcept { return ordinal_; }
  void make_current() const;
  cudaStream_t stream() const;
  cublasHandle_t blas() const;
  cublasLtHandle_t blas_lt() const;
  cudnnHandle_t dnn() const;

  /// Waits until all work is done. Throws its error: CUDA's error, or ConfigError for a number out of range.
  void wait() const;

  /// Zeroed memory of the GPU, aligned to 256 bytes.
  tensor::Buffer allocate(std::size_t bytes) const;
  /// Memory that is not zeroed, so that the call does not wait for work on the GPU.
  tensor::Buffer allocate_unset(std::size_t bytes) const;
  /// Zeroed host memory that the GPU accesses directly.
  tensor::Buffer allocate_pinned(std::size_t bytes) const;

  void reserve(Workspace workspace, std::size_t bytes);
  void* workspace(Workspace workspace) const noexcept {
    return workspaces_[static_cast<std::size_t>(workspace)].data();
  }
  void reserve_scratch(std::size_t bytes) { reserve(Workspace::scratch, bytes); }
  void* scratch() const noexcept { return workspace(Workspace::scratch); }
  std::size_t scratch_bytes() const noexcept { return workspaces_[0].bytes(); }
  /// Is incremented when a workspace moves. Recorded work that has its address must then be discarded.
  std::uint64_t moves() const noexcept { return moves_; }

  tensor::DataType activation_type() const noexcept { return arithmetic_.activations; }
  bool allows_tf32() const noexcept { return arithmetic_.allows_tf32; }
  bool is_deterministic() const noexcept { return arithmetic_.is_deterministic; }

  /// The place where kernels report an invalid label or row of a table, in host memory that the GPU can write.
  NumberFault* number_fault() const noexcept { return static_cast<NumberFault*>(number_fault_.data()); }

  /// The key of the layers' next passes, in GPU memory, so that recorded work sees each change. store_rng_key() of
  /// elementwise.hpp writes it.
  RngKey* rng_key() const noexcept { return static_cast<RngKey*>(rng_key_.data()); }

  PlanCache<AttentionPlans>& attention_plans() noexcept { return attention_plans_; }
  PlanCache<ConvolutionPlans>& convolution_plans() noexcept { return convolution_plans_; }

  /// Versions and GPU, which determine the bits of a result.
  std::string description() const;

 private:
  std::string arithmetic_note() const;

  int ordinal_;
  Arithmetic arithmetic_;
  Stream stream_;  // declared before the handles that use it
  Blas blas_;
  BlasLt blas_lt_;
  Dnn dnn_;
  tensor::Buffer blas_workspace_;
  std::array<tensor::Buffer, 5> workspaces_;
  std::uint64_t moves_ = 0;
  tensor::Buffer number_fault_;
  tensor::Buffer rng_key_;
  PlanCache<AttentionPlans> attention_plans_;
  PlanCache<ConvolutionPlans> convolution_plans_;
};

}  // namespace distdl::kernels::cuda
