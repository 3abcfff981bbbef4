// SPDX-License-Identifier: Apache-2.0
#include <distdl/kernels/cuda/primitives/columns.cuh>
#include <distdl/tensor/half.hpp>

namespace distdl::kernels::cuda {

template <class T>
void sum_rows(const Device& device, const ColumnChunks& chunks, const T* dy, std::int64_t stride, float* sums) {
  sum_columns(device, chunks, SumOfRows<T>{dy, sums, stride});
}
template void sum_rows(const Device&, const ColumnChunks&, const float*, std::int64_t, float*);
template void sum_rows(const Device&, const ColumnChunks&, const tensor::Bfloat16*, std::int64_t, float*);
template void sum_rows(const Device&, const ColumnChunks&, const tensor::Float16*, std::int64_t, float*);

}  // namespace distdl::kernels::cuda
