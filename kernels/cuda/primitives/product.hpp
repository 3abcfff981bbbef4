// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <distdl/kernels/cuda/device/cuda_handles.hpp>
#include <distdl/kernels/cuda/device/device.hpp>
#include <distdl/kernels/cuda/primitives/gemm.hpp>

namespace distdl::kernels::cuda {

/// The additional work of cuBLASLt with a product C = op(A) op(B).
enum class Epilogue {
  none,
  bias,           ///< adds one bias per row of C, which has C's type
  bias_gelu,      ///< adds the bias, stores the result separately, and writes its GELU (by tanh) to C
  bias_gradient,  ///< writes the sums of the columns of op(B), one per column of C and of C's type
};

/// A product by cuBLASLt, fused with its epilogue if the library supports these extents and types; else by cuBLAS
/// without the epilogue. The algorithm is chosen at creation from the extents alone, and never accumulates in place, so
/// the bits are the same in every run.
class Product {
 public:
  /// Reserves the scratch memory of the device that it needs. C is packed: ldc = m.
  Product(Device& device, const Gemm& gemm, const ProductTypes& types, Epilogue epilogue);
  /// If false, the caller has to do the work of the epilogue.
  bool fuses() const { return way_.has_value(); }
  /// All pointers are aligned to 16 bytes. `bias` is read or written by the epilogue. `before_gelu` has the format of
  /// C.
  void run(const Device& device, const void* a, const void* b, void* c, const void* bias = nullptr,
           void* before_gelu = nullptr);

 private:
  Gemm gemm_;
  ProductTypes types_;
  Epilogue epilogue_;
  MatmulDescriptor product_;
  MatrixLayout a_, b_, c_;
  std::optional<cublasLtMatmulAlgo_t> way_;  ///< nullopt: cuBLASLt has no algorithm
};

}  // namespace distdl::kernels::cuda
