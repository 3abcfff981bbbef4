// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/cuda/layers/pool_windows.hpp>

namespace distdl::kernels::cuda {

/// Images with adjacent channels, (N, H, W, C), which suit tensor cores. This is the only arrangement of this backend
/// besides the dense (N, C, H, W). `shape` stays (N, C, H, W).
ActivationFormat channels_last(const tensor::Shape& shape, tensor::DataType type);
bool has_channels_last(const ActivationFormat& format);
class Device;

/// Copies elements from one arrangement and type to another of the same shape. The types are floating types.
void rearrange(const Device& device, const ActivationFormat& from_format, const void* from,
               const ActivationFormat& to_format, void* to);

/// The format of another shape with the same type and, for images, the same arrangement as `format`.
ActivationFormat like(const ActivationFormat& format, const tensor::Shape& shape);

PoolWindows windows_over(const ActivationFormat& input, const ActivationFormat& output, std::int64_t kernel,
                         std::int64_t stride, std::int64_t padding);

}  // namespace distdl::kernels::cuda
