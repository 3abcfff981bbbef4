// SPDX-License-Identifier: Apache-2.0
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <distdl/kernels/onednn/bfloat16.hpp>
#include <distdl/kernels/onednn/context.hpp>

namespace distdl::kernels::onednn {
namespace {
/// Sapphire Rapids and later, whose bfloat16 is that of AMX: vdpbf16ps does half the arithmetic of vfmadd231ps, see
/// bench/results/train_cpu.md. They have AVX512-FP16, other processors have not.
bool is_built_for_amx() {
#if defined(__x86_64__)
  constexpr unsigned kLeaf = 7, kAvx512Fp16 = 1U << 23U;  // in edx
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_is("intel") && __get_cpuid_count(kLeaf, 0, &a, &b, &c, &d) == 1 && (d & kAvx512Fp16) != 0;
#else
  return false;
#endif
}
}  // namespace

bool has_bfloat16() {
  return includes(dnnl::cpu_isa::avx512_core_bf16);
}

bool has_fast_bfloat16() {
  return has_bfloat16() && (includes(dnnl::cpu_isa::avx512_core_amx) || !is_built_for_amx());
}

}  // namespace distdl::kernels::onednn
