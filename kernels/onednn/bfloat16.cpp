// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include <dnnl.hpp>

#include <distdl/kernels/onednn/bfloat16.hpp>

namespace distdl::kernels::onednn {
namespace {
bool has(dnnl::cpu_isa wanted) {
  // Each instruction set's number has the bits of those that it includes.
  const auto all = static_cast<unsigned>(dnnl::get_effective_cpu_isa()), bits = static_cast<unsigned>(wanted);
  return (all & bits) == bits;
}

#if defined(__x86_64__)
// By assembler, so that a build without optimisation measures the same: 15 sums, enough to hide an instruction's
// latency, each of 500 products of zeros.
#define DISTDL_MULTIPLY(instruction)                                                                              \
  asm volatile(                                                                                                   \
      ".irp sum,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vpxord %%zmm\\sum,%%zmm\\sum,%%zmm\\sum\n .endr\n"        \
      "mov $500,%%ecx\n 1:\n"                                                                                     \
      ".irp sum,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14\n " instruction                                                \
      " %%zmm15,%%zmm15,%%zmm\\sum\n .endr\n"                                                                     \
      "dec %%ecx\n jnz 1b\n vzeroupper\n" ::                                                                      \
          : "ecx", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
            "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")
void multiply_floats() {
  DISTDL_MULTIPLY("vfmadd231ps");
}
void multiply_bfloat16() {
  DISTDL_MULTIPLY("vdpbf16ps");
}
#undef DISTDL_MULTIPLY

using Seconds = std::chrono::duration<double>;

Seconds time_of(void (*work)()) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::steady_clock::now() - start;
}

/// Each of the latter multiplies twice as many numbers. The best times of many, in turn, so that what else the
/// processor does, another rank on the same core say, slows both.
bool is_faster_than_floats() {
  constexpr double kClearly = 1.2;
  Seconds floats = Seconds::max(), bfloat16 = Seconds::max();
  for (int round = 0; round < 30; ++round) {
    floats = std::min(floats, time_of(&multiply_floats));
    bfloat16 = std::min(bfloat16, time_of(&multiply_bfloat16));
  }
  return 2 * floats > kClearly * bfloat16;
}
#else
bool is_faster_than_floats() {
  return true;
}
#endif
}  // namespace

bool has_bfloat16() {
  return has(dnnl::cpu_isa::avx512_core_bf16);
}

bool has_fast_bfloat16() {
  if (!has_bfloat16()) return false;
  static const bool is_fast = has(dnnl::cpu_isa::avx512_core_amx) || is_faster_than_floats();
  return is_fast;
}

}  // namespace distdl::kernels::onednn
