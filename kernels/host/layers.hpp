// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <distdl/kernels/backend.hpp>
#include <distdl/kernels/host/stateless.hpp>

/// Layers that do little more than move dense floats: the same for all backends on the CPU.
namespace distdl::kernels::host {

/// `noise` must outlive the layer.
std::unique_ptr<Layer> make_dropout(const Dropout& spec, const tensor::Shape& input, const Noise& noise);
std::unique_ptr<Layer> make_embedding(const Embedding& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_position_embedding(const PositionEmbedding& spec, const tensor::Shape& input);
std::unique_ptr<Layer> make_class_token(const tensor::Shape& input);
std::unique_ptr<Layer> make_pixels_to_sequence(const tensor::Shape& input);
std::unique_ptr<Layer> make_select_place(const SelectPlace& spec, const tensor::Shape& input);

}  // namespace distdl::kernels::host
