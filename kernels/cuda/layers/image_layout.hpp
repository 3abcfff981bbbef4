// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/cuda/layers/pool_windows.hpp>

namespace distdl::kernels::cuda {

/// Images whose channels lie side by side, (N, H, W, C), as tensor cores like them: the one arrangement that this
/// backend has beside the dense (N, C, H, W). `shape` stays (N, C, H, W).
ActivationFormat channels_last(const tensor::Shape& shape, tensor::DataType type);
bool has_channels_last(const ActivationFormat& format);
class Device;

/// Elements one by one from one arrangement and type to another of the same shape; of floating types.
void rearrange(const Device& device, const ActivationFormat& from_format, const void* from,
               const ActivationFormat& to_format, void* to);

/// Another shape in the type, and if it is of images, the arrangement of `format`.
ActivationFormat like(const ActivationFormat& format, const tensor::Shape& shape);

PoolWindows windows_over(const ActivationFormat& input, const ActivationFormat& output, std::int64_t kernel,
                         std::int64_t stride, std::int64_t padding);

}  // namespace distdl::kernels::cuda
