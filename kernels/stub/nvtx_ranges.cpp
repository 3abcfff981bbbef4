// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/nvtx_ranges.hpp>

namespace distdl::kernels::cuda {

void show_spans_as_nvtx_ranges() noexcept {}

}  // namespace distdl::kernels::cuda
