// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <distdl/kernels/cuda/device/cuda_error.hpp>
#include <distdl/kernels/cuda/primitives/product.hpp>

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
        "set the preferences for a product");
}

cublasLtEpilogue_t library_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::bias_gradient:
      return CUBLASLT_EPILOGUE_BGRADB;
    default:
      return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

MatmulDescriptor describe(const Gemm& gemm, cublasComputeType_t compute, Epilogue epilogue) {
  MatmulDescriptor product = make_matmul(compute);
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, gemm.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, gemm.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(epilogue));
  if (epilogue == Epilogue::bias_gelu) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, gemm.ldc);
    // Until run() says where: the plan depends on the alignment.
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, reinterpret_cast<void*>(std::uintptr_t{256}));
  }
  return product;
}

MatmulPreference wishes() {
  MatmulPreference preference = make_matmul_preference();
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  // Partial sums in fp32 and in the workspace: neither in C's type nor by atomics.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, attribute, std::uint32_t{16});
  return preference;
}
}  // namespace

Product::Product(Device& device, const Gemm& gemm, const ProductTypes& types, Epilogue epilogue)
    : gemm_(gemm),
      types_(types),
      epilogue_(epilogue),
      product_(describe(gemm, compute_type(types.operands, device.allows_tf32()), epilogue)),
      a_(make_matrix(types.operands, gemm.transpose_a ? gemm.k : gemm.m, gemm.transpose_a ? gemm.m : gemm.k, gemm.lda)),
      b_(make_matrix(types.operands, gemm.transpose_b ? gemm.n : gemm.k, gemm.transpose_b ? gemm.k : gemm.n, gemm.ldb)),
      c_(make_matrix(types.result, gemm.m, gemm.n, gemm.ldc)) {
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t code = cublasLtMatmulAlgoGetHeuristic(device.blas_lt(), product_.get(), a_.get(), b_.get(),
                                                             c_.get(), c_.get(), wishes().get(), 1, &found, &count);
  // With an epilogue, cuBLASLt says either where it does not know it for such types.
  if (code == CUBLAS_STATUS_NOT_SUPPORTED || (epilogue != Epilogue::none && code == CUBLAS_STATUS_INVALID_VALUE))
    return;
  check(code, "plan a product");
  if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return;
  device.reserve_scratch(found.workspaceSize);
  way_ = found.algo;
}

void Product::run(const Device& device, const void* a, const void* b, void* c, const void* bias, void* before_gelu) {
  if (!way_) return multiply(device, gemm_, types_, a, b, c);
  if (epilogue_ != Epilogue::none) set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (epilogue_ == Epilogue::bias_gelu) set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, before_gelu);
  check(cublasLtMatmul(device.blas_lt(), product_.get(), &kOne, a, a_.get(), b, b_.get(), &kZero, c, c_.get(), c,
                       c_.get(), &*way_, device.scratch(), device.scratch_bytes(), device.stream()),
        "multiply matrices");
}

}  // namespace distdl::kernels::cuda
