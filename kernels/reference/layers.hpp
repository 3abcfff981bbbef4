// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/host/stateless.hpp>

/// Plain loops over dense row-major arrays, sums in double; slow and easy to check. The oracle for every other backend.
namespace distdl::kernels::reference {

std::unique_ptr<Layer> make_linear(const Linear& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_conv2d(const Conv2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_max_pool2d(const MaxPool2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_average_pool2d(const AveragePool2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_global_average_pool(const tensor::Shape& input);
std::unique_ptr<Layer> make_relu(const tensor::Shape& input);
std::unique_ptr<Layer> make_gelu(const Gelu& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_silu(const tensor::Shape& input);
std::unique_ptr<Layer> make_gated_silu(const tensor::Shape& input);
std::unique_ptr<Layer> make_batch_norm(const BatchNorm& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer_norm(const LayerNorm& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_rms_norm(const RmsNorm& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_attention(const Attention& spec, const tensor::Shape& input);

}  // namespace distdl::kernels::reference
