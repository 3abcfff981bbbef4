// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks index and element maths that a kernel runs, and that a test runs on the CPU in the same order.
#ifdef __CUDACC__
#define DISTDL_HOST_DEVICE __host__ __device__
#else
#define DISTDL_HOST_DEVICE
#endif
