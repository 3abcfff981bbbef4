// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include <distdl/kernels/optimizer_steps.hpp>

namespace distdl::kernels::cuda {

class Device;

// The element-wise maths of elementwise/functors.hpp over arrays on the GPU: as Backend's calls of the same names.
void fill(const Device& device, float* data, std::size_t count, float value);
void add(const Device& device, float* accumulate, const float* addend, std::size_t count);
void sgd(const Device& device, const SgdStep& step, float* parameters, float* momentum, const float* gradients,
         std::size_t count);
void lars(const Device& device, const LarsStep& step, float* parameters, float* velocity, const float* gradients,
          std::size_t count);
void adamw(const Device& device, const AdamStep& step, float* parameters, float* first, float* second,
           const float* gradients, std::size_t count);
/// These two take some of the device's scratch memory.
void lamb_moments(Device& device, const AdamStep& step, const float* parameters, float* first, float* second,
                  const float* gradients, std::size_t count, double* sum);
void sum_of_squares(Device& device, const float* data, std::size_t count, double* sum);
void lamb(const Device& device, const AdamStep& step, float* parameters, const float* first, const float* second,
          std::size_t count);
void running_average(const Device& device, float* value, const float* observed, float weight, float scale,
                     std::size_t count);

/// Whether the current GPU can run the kernels of this program.
cudaError_t probe_kernels();

}  // namespace distdl::kernels::cuda
