// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/host/stateless.hpp>

/// Plain loops over dense row-major arrays, with sums in double. They are slow and easy to check, and serve as the
/// reference for every other backend.
namespace distdl::kernels::reference {

std::unique_ptr<Layer> make_layer(const Linear& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const Conv2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const MaxPool2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const AveragePool2d& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const GlobalAveragePool& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const Relu& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const Gelu& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const Silu& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const GatedSilu& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const BatchNorm& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const LayerNorm& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const RmsNorm& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_layer(const Attention& spec, const tensor::Shape& input);

}  // namespace distdl::kernels::reference
