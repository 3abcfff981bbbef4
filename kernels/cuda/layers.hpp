// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/cuda/device.hpp>

// One file per layer, or per kind of layers. Activations are dense; they all work on the device's one stream and return
// before it is done. What a step needs beside its arguments is allocated when a layer is made.
namespace distdl::kernels::cuda {

/// Shared by the backend, its layers and its losses: they may end in any order.
using SharedDevice = std::shared_ptr<Device>;

std::unique_ptr<Layer> make_linear(SharedDevice device, const Linear& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_conv2d(SharedDevice device, const Conv2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_max_pool2d(SharedDevice device, const MaxPool2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_average_pool2d(SharedDevice device, const AveragePool2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_global_average_pool(SharedDevice device, const tensor::Shape& input);
std::unique_ptr<Layer> make_relu(SharedDevice device, const tensor::Shape& input);
std::unique_ptr<Layer> make_gelu(SharedDevice device, const Gelu& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_silu(SharedDevice device, const tensor::Shape& input);
std::unique_ptr<Layer> make_gated_silu(SharedDevice device, const tensor::Shape& input);
std::unique_ptr<Layer> make_batch_norm(SharedDevice device, const BatchNorm& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer_norm(SharedDevice device, const LayerNorm& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_rms_norm(SharedDevice device, const RmsNorm& spec, const tensor::Shape& input);
/// Draws from Device::noise().
std::unique_ptr<Layer> make_dropout(SharedDevice device, const Dropout& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_embedding(SharedDevice device, const Embedding& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_position_embedding(SharedDevice device, const PositionEmbedding& spec,
                                               const tensor::Shape& input);
std::unique_ptr<Layer> make_class_token(SharedDevice device, const tensor::Shape& input);
std::unique_ptr<Layer> make_pixels_to_sequence(SharedDevice device, const tensor::Shape& input);
std::unique_ptr<Layer> make_select_place(SharedDevice device, const SelectPlace& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_attention(SharedDevice device, const Attention& spec, const tensor::Shape& input);

// Specs and shapes as CudaBackend has checked them, because nvcc cannot compile fmt 9.
std::unique_ptr<Loss> make_cross_entropy(SharedDevice device, const CrossEntropy& spec, const tensor::Shape& logits);
std::unique_ptr<Loss> make_squared_error(SharedDevice device, const tensor::Shape& predictions);

}  // namespace distdl::kernels::cuda
