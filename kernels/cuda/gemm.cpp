// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/cuda_error.hpp>
#include <distdl/kernels/cuda/device.hpp>
#include <distdl/kernels/cuda/gemm.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr float kZero = 0;

cublasOperation_t operation(bool is_transposed) {
  return is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}
}  // namespace

void multiply(const Device& device, const Gemm& gemm, float alpha, const float* a, const float* b, float* c) {
  check(cublasSgemm_64(device.blas(), operation(gemm.transpose_a), operation(gemm.transpose_b), gemm.m, gemm.n, gemm.k,
                       &alpha, a, gemm.lda, b, gemm.ldb, &kZero, c, gemm.ldc),
        "multiply matrices");
}

void multiply(const Device& device, const GemmBatch& batch, std::int64_t count, float alpha, const float* a,
              const float* b, float* c) {
  const Gemm& gemm = batch.gemm;
  check(cublasSgemmStridedBatched_64(device.blas(), operation(gemm.transpose_a), operation(gemm.transpose_b), gemm.m,
                                     gemm.n, gemm.k, &alpha, a, gemm.lda, batch.stride_a, b, gemm.ldb, batch.stride_b,
                                     &kZero, c, gemm.ldc, batch.stride_c, count),
        "multiply a batch of matrices");
}

}  // namespace distdl::kernels::cuda
