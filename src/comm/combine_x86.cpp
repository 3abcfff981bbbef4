// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstring>

#include <immintrin.h>

#include <distdl/comm/combine_kernels.hpp>

namespace distdl::comm {

const CombineKernels& combine_kernels() {
  static const CombineKernels& best = [&]() -> const CombineKernels& {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
      return kCombineAvx512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? kCombineAvx2 : kCombineBaseline;
  }();
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
