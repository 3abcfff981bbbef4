// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include <distdl/kernels/cuda/stretch_sums.hpp>
#include <distdl/kernels/noise.hpp>
#include <distdl/kernels/optimizer_steps.hpp>
#include <distdl/tensor/element.hpp>

namespace distdl::kernels::cuda {

class Device;

// The element-wise maths of elementwise/functors.hpp over arrays on the GPU: as Backend's calls of the same names.
void fill(const Device& device, float* data, std::size_t count, float value);
/// In the order of the stream, without reading host memory later.
void store_noise(const Device& device, const Noise& noise);
/// Of activations of one type.
void add(const Device& device, tensor::DataType type, void* accumulate, const void* addend, std::size_t count);
/// (N, rows, columns) to (N, columns, rows), `count` values, between floating types. With rows = columns = 1 it is
/// Backend::convert().
void swap_axes(const Device& device, tensor::DataType from_type, const void* from, tensor::DataType to_type, void* to,
               std::size_t count, std::int64_t rows = 1, std::int64_t columns = 1);
void sgd(const Device& device, const SgdStep& step, float* parameters, float* momentum, const float* gradients,
         std::size_t count);
void lars(const Device& device, const LarsStep& step, float* parameters, float* velocity, const float* gradients,
          std::size_t count);
void adamw(const Device& device, const AdamStep& step, float* parameters, float* first, float* second,
           const float* gradients, std::size_t count);
/// Stretches on the GPU. All parts fit into the device's scratch, which is not where the table lies.
struct StretchTable {
  const StretchParts* stretches;
  std::int64_t count;
  std::int64_t parts;       ///< of all
  std::int64_t most_parts;  ///< of one
};
void lamb_moments(Device& device, const AdamStep& step, const float* parameters, float* first, float* second,
                  const float* gradients, const StretchTable& table, double* sums);
void sums_of_squares(Device& device, const float* data, const StretchTable& table, double* sums);
void lamb(const Device& device, const AdamStep& step, float* parameters, const float* first, const float* second,
          std::size_t count);
void running_average(const Device& device, float* value, const float* observed, float weight, float scale,
                     std::size_t count);

/// Whether the current GPU can run the kernels of this program.
cudaError_t probe_kernels();

}  // namespace distdl::kernels::cuda
