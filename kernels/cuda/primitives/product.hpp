// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <distdl/kernels/cuda/device/cuda_handles.hpp>
#include <distdl/kernels/cuda/device/device.hpp>
#include <distdl/kernels/cuda/primitives/gemm.hpp>

namespace distdl::kernels::cuda {

/// What cuBLASLt does beside a product C = op(A) op(B).
enum class Epilogue {
  none,
  bias,           ///< adds one bias per row of C, of C's type
  bias_gelu,      ///< and writes that elsewhere, its GELU by tanh to C
  bias_gradient,  ///< writes the sums of the columns of op(B), of C's type: one per column of C
};

/// One product by cuBLASLt, fused with its epilogue where the library has a way for these extents and types; else by
/// cuBLAS, without. The way is chosen when this is made, from the extents alone, and none that adds up in place: the
/// same bits in every run.
class Product {
 public:
  /// Reserves what it needs of the device's scratch. C is packed: ldc = m.
  Product(Device& device, const Gemm& gemm, const ProductTypes& types, Epilogue epilogue);
  /// Else the caller has to do what the epilogue would.
  bool fuses() const { return way_.has_value(); }
  /// All pointers are aligned to 16 bytes. `bias`: what the epilogue reads or writes. `before_gelu`: as C.
  void run(const Device& device, const void* a, const void* b, void* c, const void* bias = nullptr,
           void* before_gelu = nullptr);

 private:
  Gemm gemm_;
  ProductTypes types_;
  Epilogue epilogue_;
  MatmulDescriptor product_;
  MatrixLayout a_, b_, c_;
  std::optional<cublasLtMatmulAlgo_t> way_;  ///< nullopt: cuBLASLt has none
};

}  // namespace distdl::kernels::cuda
