// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/host/stateless.hpp>
#include <distdl/kernels/onednn/context.hpp>

namespace distdl::kernels::onednn {

// `context` outlives the layer.
std::unique_ptr<Layer> make_linear(Context& context, const Linear& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_conv2d(Context& context, const Conv2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_max_pool2d(const MaxPool2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_average_pool2d(const AveragePool2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_global_average_pool(const ActivationFormat& input);
void relu_in_place(const ActivationFormat& format, void* y);
std::unique_ptr<Layer> make_relu(const ActivationFormat& input);
std::unique_ptr<Layer> make_gelu(Context& context, const Gelu& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_silu(Context& context, const ActivationFormat& input);
std::unique_ptr<Layer> make_batch_norm(Context& context, const BatchNorm& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer_norm(const LayerNorm& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_rms_norm(const RmsNorm& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_gated_silu(const ActivationFormat& input);
std::unique_ptr<Layer> make_attention(Context& context, const Attention& spec, const tensor::Shape& input);

}  // namespace distdl::kernels::onednn
