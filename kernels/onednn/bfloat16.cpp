// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include <dnnl.hpp>

#include <distdl/kernels/onednn/bfloat16.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace distdl::kernels::onednn {
namespace {
bool has(dnnl::cpu_isa wanted) {
  // Each instruction set's number has the bits of those that it includes.
  const auto all = static_cast<unsigned>(dnnl::get_effective_cpu_isa()), bits = static_cast<unsigned>(wanted);
  return (all & bits) == bits;
}

#if defined(__x86_64__)
constexpr int kChains = 16;  // enough to hide an instruction's latency
constexpr int kLinks = 500;  // of each chain

__attribute__((target("avx512f"))) void multiply_floats() {
  __m512 sums[kChains] = {};
  const __m512 factor = _mm512_setzero_ps();
  for (int i = 0; i < kLinks; ++i)
#pragma GCC unroll 16
    for (auto& sum : sums) {
      sum = _mm512_fmadd_ps(factor, factor, sum);
      asm volatile("" : "+v"(sum));  // not to be left out
    }
}

__attribute__((target("avx512f,avx512bf16"))) void multiply_bfloat16() {
  __m512 sums[kChains] = {};
  const __m512bh factor{};
  for (int i = 0; i < kLinks; ++i)
#pragma GCC unroll 16
    for (auto& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, factor, factor);
      asm volatile("" : "+v"(sum));
    }
}

/// The fastest of several times, as others may use the processor too.
template <class Work>
std::chrono::duration<double> time_of(const Work& work) {
  auto best = std::chrono::duration<double>::max();
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min<std::chrono::duration<double>>(best, std::chrono::steady_clock::now() - start);
  }
  return best;
}

/// Each of the latter multiplies twice as many numbers.
bool is_faster_than_floats() {
  constexpr double kClearly = 1.2;
  return 2 * time_of(&multiply_floats) > kClearly * time_of(&multiply_bfloat16);
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
  static const bool by_avx512 = has(dnnl::cpu_isa::avx512_core_amx) || is_faster_than_floats();
  return by_avx512;
}

}  // namespace distdl::kernels::onednn
