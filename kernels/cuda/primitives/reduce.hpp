// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include <distdl/kernels/cuda/primitives/reduce_pass.hpp>

namespace distdl::kernels::cuda {

/// One pass over `count` elements, on the current GPU.
void reduce(cudaStream_t stream, tensor::DataType type, tensor::Reduction reduction, const ReducePass& pass,
            std::size_t count);

}  // namespace distdl::kernels::cuda
