// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include <distdl/comm/reduce/reduce_sixteen_bit.hpp>

namespace distdl::comm {
namespace {

struct Avx2;
using Loops = ReduceLoops<Avx2>;

struct Halves {
  using Floats = __m256;
  using Plain = Loops::Float16;
  static constexpr std::size_t kLanes = 8;
  static __m256 widen(const void* at) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(at))); }
  static __m128i narrow(__m256 values) { return _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT); }
};

constexpr ReduceKernels kernels() {
  ReduceKernels all = Loops::kernels();
  SixteenBitLoops<Loops, Halves>::replace(all, DataType::float16);
  return all;
}

}  // namespace

constexpr ReduceKernels kReduceAvx2 = kernels();

}  // namespace distdl::comm
