// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/cuda/device.hpp>

// One file per layer. Activations are dense; they all work on the device's one stream and return before it is done.
namespace distdl::kernels::cuda {

/// Shared by the backend, its layers and its losses: they may end in any order.
using SharedDevice = std::shared_ptr<Device>;

std::unique_ptr<Layer> make_linear(SharedDevice device, const Linear& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_conv2d(SharedDevice device, const Conv2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_max_pool2d(SharedDevice device, const MaxPool2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_relu(SharedDevice device, const tensor::Shape& input);
std::unique_ptr<Layer> make_batch_norm(SharedDevice device, const BatchNorm& spec, const tensor::Shape& input);
/// logits: (N, classes), dense; as CudaBackend has checked, because nvcc cannot compile fmt 9.
std::unique_ptr<Loss> make_softmax_cross_entropy(SharedDevice device, const ActivationFormat& logits);

}  // namespace distdl::kernels::cuda
