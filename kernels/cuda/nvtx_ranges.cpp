// SPDX-License-Identifier: Apache-2.0
#include <nvtx3/nvToolsExt.h>

#include <distdl/base/spans.hpp>
#include <distdl/kernels/cuda/nvtx_ranges.hpp>

namespace distdl::kernels::cuda {

void show_spans_as_nvtx_ranges() noexcept {
  // They return the depth, or that no tool listens.
  set_span_ranges({[](const char* name) { (void)::nvtxRangePushA(name); }, [] { (void)::nvtxRangePop(); }});
}

}  // namespace distdl::kernels::cuda
