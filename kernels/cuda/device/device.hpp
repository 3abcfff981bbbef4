// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <distdl/kernels/cuda/device/cuda_handles.hpp>
#include <distdl/kernels/cuda/layers/number_fault.hpp>
#include <distdl/kernels/rng_key.hpp>
#include <distdl/tensor/buffer.hpp>
#include <distdl/tensor/element.hpp>

namespace distdl::kernels::cuda {

class AttentionPlans;

struct Arithmetic {
  tensor::DataType activations = tensor::DataType::float32;
  bool allows_tf32 = false;      ///< products of floats may round them to TF32
  bool is_deterministic = true;  ///< the same bits in every run
};

/// Memory of the device that all layers share, since they run one after the other: for one call until the next.
enum class Workspace { scratch, x, y, dy, dx };  ///< all but the first: see adapted.hpp

/// One GPU as one rank uses it: a single stream, so that all work happens in the order of the calls, and the handles of
/// the libraries on it. Every call first makes the GPU the calling thread's current one.
class Device {
 public:
  Device(int ordinal, const Arithmetic& arithmetic);
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

  void reserve(Workspace workspace, std::size_t bytes);
  void* workspace(Workspace workspace) const noexcept {
    return workspaces_[static_cast<std::size_t>(workspace)].data();
  }
  void reserve_scratch(std::size_t bytes) { reserve(Workspace::scratch, bytes); }
  void* scratch() const noexcept { return workspace(Workspace::scratch); }
  std::size_t scratch_bytes() const noexcept { return workspaces_[0].bytes(); }
  /// Grows when a workspace moves: what was recorded with its address must be forgotten.
  std::uint64_t moves() const noexcept { return moves_; }

  tensor::DataType activation_type() const noexcept { return arithmetic_.activations; }
  bool allows_tf32() const noexcept { return arithmetic_.allows_tf32; }
  bool is_deterministic() const noexcept { return arithmetic_.is_deterministic; }

  /// Where kernels report a bad label or row of a table; host memory that the GPU can write.
  NumberFault* number_fault() const noexcept { return static_cast<NumberFault*>(number_fault_.data()); }

  /// From what the layers' next passes draw; memory of the GPU, so that recorded work sees each change. Written by
  /// store_rng_key() of elementwise.hpp.
  RngKey* rng_key() const noexcept { return static_cast<RngKey*>(rng_key_.data()); }

  /// Those in use, which layers of the same extents share.
  std::vector<std::weak_ptr<const AttentionPlans>>& attention_plans() noexcept { return attention_plans_; }
  /// Extents for which cuDNN has none: not to be asked again.
  std::set<std::vector<std::int64_t>>& refused_attention() noexcept { return refused_attention_; }

  /// Versions and GPU: what decides the bits of a result.
  std::string description() const;

 private:
  std::string arithmetic_note() const;

  int ordinal_;
  Arithmetic arithmetic_;
  Stream stream_;  // before the handles that work on it
  Blas blas_;
  BlasLt blas_lt_;
  Dnn dnn_;
  tensor::Buffer blas_workspace_;
  std::array<tensor::Buffer, 5> workspaces_;
  std::uint64_t moves_ = 0;
  tensor::Buffer number_fault_;
  tensor::Buffer rng_key_;
  std::vector<std::weak_ptr<const AttentionPlans>> attention_plans_;
  std::set<std::vector<std::int64_t>> refused_attention_;
};

}  // namespace distdl::kernels::cuda
