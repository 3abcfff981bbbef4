// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include <distdl/kernels/rng_key.hpp>
#include <distdl/tensor/element.hpp>

namespace distdl::kernels::cuda {

class Device;

// The element-wise maths of elementwise/functors.hpp over arrays on the GPU: as Backend's calls of the same names.
void fill(const Device& device, float* data, std::size_t count, float value);
/// In the order of the stream, without reading host memory later.
void store_rng_key(const Device& device, const RngKey& rng_key);
/// Of activations of one type.
void add(const Device& device, tensor::DataType type, void* accumulate, const void* addend, std::size_t count);
/// (N, rows, columns) to (N, columns, rows), `count` values, between floating types. With rows = columns = 1 it is
/// Backend::convert().
void swap_axes(const Device& device, tensor::DataType from_type, const void* from, tensor::DataType to_type, void* to,
               std::size_t count, std::int64_t rows = 1, std::int64_t columns = 1);

/// Whether the current GPU can run the kernels of this program.
cudaError_t probe_kernels();

}  // namespace distdl::kernels::cuda
