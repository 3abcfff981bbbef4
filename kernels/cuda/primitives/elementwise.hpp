// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include <distdl/kernels/rng_key.hpp>
#include <distdl/tensor/element.hpp>

namespace distdl::kernels::cuda {

class Device;

// The element-wise functions of elementwise/functors.hpp for arrays on the GPU, named like Backend's functions.
void fill(const Device& device, float* data, std::size_t count, float value);
/// Runs in the order of the stream, and does not read host memory later.
void store_rng_key(const Device& device, const RngKey& rng_key);
/// Adds activations of one type.
void add(const Device& device, tensor::DataType type, void* accumulate, const void* addend, std::size_t count);
/// Converts `count` values of (N, rows, columns) to (N, columns, rows), between floating types. With rows = columns = 1
/// it is Backend::convert().
void swap_axes(const Device& device, tensor::DataType from_type, const void* from, tensor::DataType to_type, void* to,
               std::size_t count, std::int64_t rows = 1, std::int64_t columns = 1);

/// Whether the current GPU can run the kernels of this program.
cudaError_t probe_kernels();

}  // namespace distdl::kernels::cuda
