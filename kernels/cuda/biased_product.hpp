// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include <distdl/kernels/cuda/cuda_handles.hpp>
#include <distdl/kernels/cuda/device.hpp>
#include <distdl/kernels/cuda/gemm.hpp>

namespace distdl::kernels::cuda {

/// C = op(A) op(B) + bias, one bias per row of BLAS's C, fused by cuBLASLt where it has a way for these extents; plain
/// fp32. It chooses the way when this is made, from the extents alone, and none that adds up in place: the same bits in
/// every run.
class BiasedProduct {
 public:
  /// Reserves what it needs of the device's scratch. C is packed: ldc = m.
  BiasedProduct(Device& device, const Gemm& gemm);
  /// All pointers are aligned to 16 bytes.
  void run(const Device& device, const float* a, const float* b, const float* bias, float* c);

 private:
  Gemm gemm_;
  MatmulDescriptor product_;
  MatrixLayout a_, b_, c_;
  std::optional<cublasLtMatmulAlgo_t> way_;  ///< nullopt: cuBLASLt has none
};

}  // namespace distdl::kernels::cuda
