// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <distdl/kernels/cuda/biased_product.hpp>
#include <distdl/kernels/cuda/channels.hpp>
#include <distdl/kernels/cuda/cuda_error.hpp>

namespace distdl::kernels::cuda {
namespace {
constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;  // bytes
constexpr float kOne = 1, kZero = 0;

template <class Value>
void set(const MatmulDescriptor& product, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulDescSetAttribute(product.get(), attribute, &value, sizeof(value)), "describe a product");
}
template <class Value>
void set(const MatmulPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
        "describe the wishes for a product");
}

MatmulDescriptor describe(const Gemm& gemm) {
  MatmulDescriptor product = make_matmul();
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, gemm.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, gemm.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  return product;
}

MatmulPreference wishes() {
  MatmulPreference preference = make_matmul_preference();
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, attribute, std::uint32_t{16});
  return preference;
}
}  // namespace

BiasedProduct::BiasedProduct(Device& device, const Gemm& gemm)
    : gemm_(gemm),
      product_(describe(gemm)),
      a_(make_matrix(gemm.transpose_a ? gemm.k : gemm.m, gemm.transpose_a ? gemm.m : gemm.k, gemm.lda)),
      b_(make_matrix(gemm.transpose_b ? gemm.n : gemm.k, gemm.transpose_b ? gemm.k : gemm.n, gemm.ldb)),
      c_(make_matrix(gemm.m, gemm.n, gemm.ldc)) {
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(device.blas_lt(), product_.get(), a_.get(), b_.get(),
                                                             c_.get(), c_.get(), wishes().get(), 1, &found, &count);
  if (code == CUBLAS_STATUS_NOT_SUPPORTED) return;
  check(code, "plan a product");
  if (count == 0) return;
  device.reserve_scratch(found.workspaceSize);
  way_ = found.algo;
}

void BiasedProduct::run(const Device& device, const float* a, const float* b, const float* bias, float* c) {
  if (!way_) {
    multiply(device, gemm_, 1, a, b, c);
    add_bias(device, Channels{gemm_.n, gemm_.m, 1}, bias, c);
    return;
  }
  set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  check(cublasLtMatmul(device.blas_lt(), product_.get(), &kOne, a, a_.get(), b, b_.get(), &kZero, c, c_.get(), c,
                       c_.get(), &*way_, device.scratch(), device.scratch_bytes(), device.stream()),
        "multiply matrices and add a bias");
}

}  // namespace distdl::kernels::cuda
