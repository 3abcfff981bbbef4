// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/host/stateless.hpp>
#include <distdl/kernels/onednn/context.hpp>

namespace distdl::kernels::onednn {

// `context` must outlive the layer.
std::unique_ptr<Layer> make_layer(Context& context, const Linear& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const Conv2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const MaxPool2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const AveragePool2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const GlobalAveragePool& spec, const ActivationFormat& input);
void relu_in_place(const ActivationFormat& format, void* y);
std::unique_ptr<Layer> make_layer(Context& context, const Relu& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const Gelu& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const Silu& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const BatchNorm& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const LayerNorm& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const RmsNorm& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const GatedSilu& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_layer(Context& context, const Attention& spec, const ActivationFormat& input);

}  // namespace distdl::kernels::onednn
