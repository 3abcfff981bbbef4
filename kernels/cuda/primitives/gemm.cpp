// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/device/device.hpp>
#include <distdl/kernels/cuda/primitives/gemm.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr float kOne = 1, kZero = 0;

cublasOperation_t operation(bool is_transposed) {
  return is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}
}  // namespace

void multiply(const Device& device, const Gemm& gemm, const ProductTypes& types, const void* a, const void* b,
              void* c) {
  const cudaDataType_t in = library_type(types.operands), out = library_type(types.result);
  check(cublasGemmEx_64(device.blas(), operation(gemm.transpose_a), operation(gemm.transpose_b), gemm.m, gemm.n, gemm.k,
                        &kOne, a, in, gemm.lda, b, in, gemm.ldb, &kZero, c, out, gemm.ldc,
                        compute_type(types.operands, device.allows_tf32()), CUBLAS_GEMM_DEFAULT),
        "multiply matrices");
}

void multiply(const Device& device, const GemmBatch& batch, std::int64_t count, float alpha, const float* a,
              const float* b, float* c) {
  const Gemm& gemm = batch.gemm;
  check(
      cublasGemmStridedBatchedEx_64(device.blas(), operation(gemm.transpose_a), operation(gemm.transpose_b), gemm.m,
                                    gemm.n, gemm.k, &alpha, a, CUDA_R_32F, gemm.lda, batch.stride_a, b, CUDA_R_32F,
                                    gemm.ldb, batch.stride_b, &kZero, c, CUDA_R_32F, gemm.ldc, batch.stride_c, count,
                                    compute_type(tensor::DataType::float32, device.allows_tf32()), CUBLAS_GEMM_DEFAULT),
      "multiply a batch of matrices");
}

}  // namespace distdl::kernels::cuda
