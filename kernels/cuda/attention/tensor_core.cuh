// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <distdl/tensor/half.hpp>

namespace distdl::kernels::cuda {

/// The warp's matrix instruction m16n8k16 with operands of 16 bits and sums in fp32, and the rounding of its operands.
/// PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type", says which lane has what. Of lane l, with
/// g = l / 4, t = l % 4, and a pair being two neighbours along k:
///   a (16 x 16): pairs at (row g, k 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8)
///   b (16 x 8):  pairs at (k 2t, column g), (2t + 8, g)
///   c (16 x 8):  (row g, column 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
/// tests/kernels/cuda stands in for it on the CPU.
struct TensorCore {
  /// c += a b
  template <class T>
  static __device__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
  /// Rounds two numbers, the first into the lower half.
  template <class T>
  static __device__ std::uint32_t pair(float low, float high);
};

template <>
__device__ inline void TensorCore::multiply_add<tensor::Bfloat16>(float (&c)[4], const std::uint32_t (&a)[4],
                                                                  const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ inline void TensorCore::multiply_add<tensor::Float16>(float (&c)[4], const std::uint32_t (&a)[4],
                                                                 const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
__device__ inline std::uint32_t TensorCore::pair<tensor::Bfloat16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  std::uint32_t bits;
  memcpy(&bits, &both, sizeof bits);
  return bits;
}
template <>
__device__ inline std::uint32_t TensorCore::pair<tensor::Float16>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  std::uint32_t bits;
  memcpy(&bits, &both, sizeof bits);
  return bits;
}

}  // namespace distdl::kernels::cuda
