// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/columns.cuh>

namespace distdl::kernels::cuda {

void sum_rows(const Device& device, const ColumnChunks& chunks, const float* dy, std::int64_t stride, float* sums) {
  sum_columns(device, chunks, SumOfRows{dy, sums, stride});
}

}  // namespace distdl::kernels::cuda
