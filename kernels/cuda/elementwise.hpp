// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

#include <distdl/kernels/sgd_step.hpp>

namespace distdl::kernels::cuda {

class Device;

// The element-wise maths of elementwise/functors.hpp over arrays on the GPU: as Backend's calls of the same names.
void fill(const Device& device, float* data, std::size_t count, float value);
void add(const Device& device, float* accumulate, const float* addend, std::size_t count);
void sgd(const Device& device, const SgdStep& step, float* parameters, float* momentum, const float* gradients,
         std::size_t count);
void running_average(const Device& device, float* value, const float* observed, float weight, float scale,
                     std::size_t count);

/// Whether the current GPU can run the kernels of this program.
cudaError_t probe_kernels();

}  // namespace distdl::kernels::cuda
