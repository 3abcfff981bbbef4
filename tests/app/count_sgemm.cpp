// SPDX-License-Identifier: Apache-2.0
// Preloaded by performance_test.py: says what dnnl_sgemm() multiplies, which ONEDNN_VERBOSE does not.
#include <cstdio>

#include <dlfcn.h>
#include <dnnl.h>

extern "C" [[gnu::visibility("default")]] dnnl_status_t dnnl_sgemm(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n,
                                                                   dnnl_dim_t k, float alpha, const float* a,
                                                                   dnnl_dim_t lda, const float* b, dnnl_dim_t ldb,
                                                                   float beta, float* c, dnnl_dim_t ldc) {
  static const auto original = reinterpret_cast<decltype(&dnnl_sgemm)>(dlsym(RTLD_NEXT, "dnnl_sgemm"));
  std::printf("sgemm,%ldx%ldx%ld\n", static_cast<long>(m), static_cast<long>(n), static_cast<long>(k));
  return original(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
