// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstring>

#include <cpuid.h>
#include <immintrin.h>

#include <distdl/comm/reduce/reduce_kernels.hpp>

namespace distdl::comm {
namespace {

/// Asked of the processor itself: not every compiler's __builtin_cpu_supports() knows this one.
bool converts_halves() {
  constexpr unsigned kF16c = 1U << 29;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kF16c) != 0;
}

const ReduceKernels& best_kernels() {
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return kReduceAvx512;
  return __builtin_cpu_supports("avx2") && converts_halves() ? kReduceAvx2 : kReduceBaseline;
}

}  // namespace

const ReduceKernels& reduce_kernels() {
  static const ReduceKernels& best = best_kernels();
  return best;
}

void stream_copy(void* target, const void* source, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  auto* t = static_cast<char*>(target);
  const auto* s = static_cast<const char*>(source);
  const std::size_t head = std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(t) % kLine) % kLine);
  std::memcpy(t, s, head);
  std::size_t at = head;
  for (; at + kLine <= bytes; at += kLine)
    for (std::size_t i = at; i < at + kLine; i += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(t + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i)));
  std::memcpy(t + at, s + at, bytes - at);
}

void finish_streams() {
  _mm_sfence();
}

}  // namespace distdl::comm
