// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <distdl/comm/reduce/reduce_sixteen_bit.hpp>

namespace distdl::comm {
namespace {

struct Avx512;
using Loops = ReduceLoops<Avx512>;

struct Halves {
  using Floats = __m512;
  using Plain = Loops::Float16;
  static constexpr std::size_t kLanes = 16;
  static __m512 widen(const void* at) { return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(at))); }
  static __m256i narrow(__m512 values) { return _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT); }
};

// Not the processor's own conversion to bfloat16, which takes subnormal values for 0.
struct Bfloats {
  using Floats = __m512;
  using Plain = Loops::Bfloat16;
  static constexpr std::size_t kLanes = 16;
  static __m512 widen(const void* at) {
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(at)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
  }
  static __m256i narrow(__m512 values) {
    const __m512i bits = _mm512_castps_si512(values), one = _mm512_set1_epi32(1);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    const __m512i kept = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16));
  }
};

constexpr ReduceKernels kernels() {
  ReduceKernels all = Loops::kernels();
  SixteenBitLoops<Loops, Halves>::replace(all, DataType::float16);
  SixteenBitLoops<Loops, Bfloats>::replace(all, DataType::bfloat16);
  return all;
}

}  // namespace

constexpr ReduceKernels kReduceAvx512 = kernels();

}  // namespace distdl::comm
