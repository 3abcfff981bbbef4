// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl::kernels::cuda {

/// From now on the spans of traced steps (base/spans.hpp) are also ranges of NVTX, which Nsight Systems shows beside
/// the work of the GPU. Nothing happens where no such tool listens, or the CUDA toolkit has no NVTX.
void show_spans_as_nvtx_ranges() noexcept;

}  // namespace distdl::kernels::cuda
