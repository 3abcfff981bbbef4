// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/onednn/context.hpp>

namespace distdl::kernels::onednn {

// `context` outlives the layer.
std::unique_ptr<Layer> make_linear(Context& context, const Linear& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_conv2d(Context& context, const Conv2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_max_pool2d(const MaxPool2d& spec, const ActivationFormat& input);
std::unique_ptr<Layer> make_relu(const ActivationFormat& input);
std::unique_ptr<Layer> make_batch_norm(Context& context, const BatchNorm& spec, const ActivationFormat& input);

}  // namespace distdl::kernels::onednn
