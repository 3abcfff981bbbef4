// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace distdl::comm {

/// first[i] = second[i] = left[i] (+, max, min) right[i], i < count. `second` may be null; both may be `left` or
/// `right`.
using ReduceKernel = void (*)(void* first, void* second, const void* left, const void* right, std::size_t count,
                              double scale);
/// first[i] = second[i] = source[i] * scale.
using ScaleKernel = void (*)(void* first, void* second, const void* source, std::size_t count, double scale);
/// Copies to two targets.
using CopyKernel = void (*)(void* first, void* second, const void* source, std::size_t bytes);

/// The loops of reduce() for one kind of processor, indexed by DataType and Reduction. Entries that reduce() does not
/// use are null. For the reason of C arrays see ReduceLoops.
struct ReduceKernels {
  ReduceKernel reduce[7][3]{};  ///< without `scale`
  ReduceKernel scaled_sum[7]{};
  ScaleKernel scale[7]{};
  CopyKernel copy{};
};

/// All of them produce the same bits.
extern const ReduceKernels kReduceBaseline;  ///< any processor of this architecture
extern const ReduceKernels kReduceAvx2;      ///< x86 only, like the next one
extern const ReduceKernels kReduceAvx512;    ///< F, BW, DQ, VL

/// The fastest kernels that this processor can run.
const ReduceKernels& reduce_kernels();

/// Copies like memcpy, but bypasses the caches. It is for data that are larger than the caches and not read soon. Other
/// threads may be notified only after finish_streams().
void stream_copy(void* target, const void* source, std::size_t bytes);
void finish_streams();

}  // namespace distdl::comm
