// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks index and element arithmetic that a kernel runs, and that a test runs on the CPU in the same order.
#ifdef __CUDACC__
#define DISTDL_HOST_DEVICE __host__ __device__
#else
#define DISTDL_HOST_DEVICE
#endif

/// DISTDL_UNROLL precedes a loop over values that must stay in registers.
#ifdef __CUDA_ARCH__
#define DISTDL_UNROLL _Pragma("unroll")
#else
#define DISTDL_UNROLL
#endif
